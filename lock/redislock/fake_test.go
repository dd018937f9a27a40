package redislock_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
	"github.com/ringfence/ringfence/lock/redislock"
)

// fakeServer answers every script with the same bytes, and everything else with OK.
func fakeServer(t *testing.T, answer string) *redis.Client {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn, answer)
			})
		}
	})
	rdb := redis.NewClient(&redis.Options{Addr: l.Addr().String(), MaxRetries: -1, Protocol: 2, ReadTimeout: time.Second})
	t.Cleanup(func() {
		_ = rdb.Close()
		_ = l.Close()
		running.Wait()
	})
	return rdb
}

func serve(conn net.Conn, answer string) {
	in := bufio.NewReader(conn)
	for {
		name, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "+OK\r\n"
		switch {
		case name == "hello":
			reply = "-ERR unknown command\r\n"
		case strings.HasPrefix(name, "eval"):
			reply = answer
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings, and returns the first.
func readCommand(in *bufio.Reader) (name string, err error) {
	count, err := readLength(in)
	for i := 0; i < count && err == nil; i++ {
		var n int
		if n, err = readLength(in); err != nil {
			break
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(in, text)
		if i == 0 {
			name = strings.ToLower(string(text[:n]))
		}
	}
	return name, err
}

func readLength(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 2 {
		return 0, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// TestC08_L15_NoAnswerOfSorts gives each call answers that decide nothing.
func TestC08_L15_NoAnswerOfSorts(t *testing.T) {
	t.Parallel()
	calls := map[string]func(d *redislock.Driver, c fence.Claim, r driver.Request) error{
		"Acquire": func(d *redislock.Driver, _ fence.Claim, r driver.Request) error {
			_, err := d.Acquire(t.Context(), r)
			return err
		},
		"Wait": func(d *redislock.Driver, _ fence.Claim, r driver.Request) error {
			_, err := d.Wait(t.Context(), r, driver.Place{Listener: uuid.New()})
			return err
		},
		"Renew": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			return d.Renew(t.Context(), []driver.Renewal{{Claim: c, TTL: time.Second}})[0]
		},
		"Release": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error { return d.Release(t.Context(), c, 0) },
		"Abandon": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			c.Token = 0
			return d.Release(t.Context(), c, 0)
		},
		"Leave": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			return d.Leave(t.Context(), c.Resource, c.Holder, uuid.New())
		},
		"Raise": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			return d.Raise(t.Context(), c.Resource, 5)
		},
		"Resume": func(d *redislock.Driver, c fence.Claim, r driver.Request) error {
			_, err := d.Resume(t.Context(), c, r)
			return err
		},
		"Break": func(d *redislock.Driver, _ fence.Claim, r driver.Request) error {
			_, err := d.Break(t.Context(), r, "")
			return err
		},
		"Advance": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			_, err := d.Advance(t.Context(), c, 5)
			return err
		},
		"Inspect": func(d *redislock.Driver, c fence.Claim, _ driver.Request) error {
			_, err := d.Inspect(t.Context(), c.Resource)
			return err
		},
	}
	granting, releasing := redislock.New(fakeServer(t, "$13\r\ngranted 7 100\r\n")), redislock.New(fakeServer(t, ":1\r\n"))
	g, err := granting.Acquire(t.Context(), driver.Request{Resource: "r", Holder: uuid.New(), TTL: time.Second})
	require.NoError(t, err)
	assert.Equal(t, driver.Grant{Token: 7, TTL: 100 * time.Millisecond}, g)
	require.NoError(t, releasing.Release(t.Context(), fence.Claim{Resource: "r", Token: 1, Holder: uuid.New()}, 0))
	for _, answer := range []string{
		"-ERR Error running script (call to f_x): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
		"-READONLY You can't write against a read only replica.", "-LOADING Redis is loading the dataset in memory",
		"-MISCONF Redis is configured to save RDB snapshots", "-OOM command not allowed", "-NOSCRIPT No matching script.",
		"-MOVED 42 127.0.0.1:1", "-ASK 42 127.0.0.1:1", "-TRYAGAIN Multiple keys request during rehashing of slot",
		"-CLUSTERDOWN The cluster is down", "-MASTERDOWN Link with MASTER is down", "-NOPERM no permissions",
		"-NOAUTH Authentication required.", "-WRONGPASS invalid username-password pair", "-BUSY Redis is busy running a script.",
		"-ERR Error running script: Script killed by user with SCRIPT KILL...", "-ERR unknown command", "-",
		"+WHAT", "+", ":2", ":-1", "$-1", "*0", "*-1", "$7\r\ngranted", "$9\r\ngranted 0", "$11\r\ngranted 0 1", "$11\r\ngranted 1 x",
		"$4\r\nheld", "$6\r\nheld x", "$6\r\nqueued", "$12\r\nqueued 1 0 0", "$4\r\nwhat", "*3\r\n+a\r\n+b\r\n+c", "*2\r\n:1\r\n:1", "?",
	} {
		rdb := fakeServer(t, answer+"\r\n")
		d := redislock.New(rdb)
		for name, call := range calls {
			holder := uuid.New()
			err := call(d, fence.Claim{Resource: "r", Token: 1, Holder: holder}, driver.Request{Resource: "r", Holder: holder, TTL: time.Second})
			require.Error(t, err, "%s: %q", name, answer)
			assert.NotErrorIs(t, err, driver.ErrLost, "%s: %q", name, answer)
			assert.NotErrorIs(t, err, driver.ErrExhausted, "%s: %q", name, answer)
			var held *driver.Held
			assert.NotErrorAs(t, err, &held, "%s: %q", name, answer)
			var queued *driver.Queued
			assert.NotErrorAs(t, err, &queued, "%s: %q", name, answer)
		}
	}
}
