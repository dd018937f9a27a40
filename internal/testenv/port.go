//go:build unix

package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort finds a port on 127.0.0.1 that nobody listens on. It stays below the ranges from which
// Linux (32768) and macOS (49152) take ports by themselves: a server that is down for a moment must
// not lose its port to somebody's outgoing connection. Whoever listens on it next may still be
// another; start tries again then.
func freePort() (int, error) {
	const low, high, tries = 20000, 32000, 100
	var last error
	for range tries {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("no free port between %d and %d in %d tries: %w", low, high, tries, last)
}
