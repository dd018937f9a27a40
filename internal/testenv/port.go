//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort finds a port on 127.0.0.1 that nobody listens on. It stays below the ranges from which
// Linux (32768) and macOS (49152) take ports by themselves: a server that is down for a moment must
// not lose its port to somebody's outgoing connection. Whoever listens on it next may still be
// another; start tries again then.
func freePort() (int, error) { return freePortIn(20000, 32000) }

// busOffset is how far the bus port of a cluster's node is above its port. Redis 7 can have it anywhere,
// older ones only there.
const busOffset = 10000

// freeClusterPort finds one whose bus port is free, too, and in freePort's range.
func freeClusterPort() (int, error) { return freePortIn(10000, 22000, busOffset) }

func freePortIn(low, high int, offsets ...int) (int, error) {
	const tries = 100
	var last error
	for range tries {
		port := low + rand.IntN(high-low)
		last = listenable(port)
		for _, offset := range offsets {
			last = errors.Join(last, listenable(port+offset))
		}
		if last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d in %d tries: %w", low, high, tries, last)
}

func listenable(port int) error {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
