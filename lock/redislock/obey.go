package redislock

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/lock/driver"
)

// featuresOf reads a client's options.
//
// A Client, standalone or Sentinel, ends each command soon after the deadline of its context if ContextTimeoutEnabled is on.
// A ClusterClient doesn't: it asks the cluster for what it must know of commands and slots, with timeouts of its own.
func featuresOf(rdb redis.UniversalClient) driver.Features {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return driver.Features{
			ObeysDeadline: o.ContextTimeoutEnabled,
			RepeatsAfter:  shorter(o.ReadTimeout, o.WriteTimeout),
		}
	case *redis.ClusterClient:
		o := c.Options()
		return driver.Features{RepeatsAfter: shorter(o.ReadTimeout, o.WriteTimeout)}
	}
	return driver.Features{}
}

// shorter is the shorter of two timeouts; 0 or less: there is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}
