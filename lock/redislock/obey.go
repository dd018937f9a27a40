package redislock

import "github.com/redis/go-redis/v9"

// obeysDeadlines reports whether the client ends each command soon after the deadline of its context. By default go-redis
// looks at timeouts of its own only.
func obeysDeadlines(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case *redis.Client: // standalone or Sentinel
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}
