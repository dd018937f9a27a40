package redislock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

var errAbandoned = errors.New("redislock: this request was abandoned")

// grant sends a command whose script replies as acquire.lua does.
func (d *Driver) grant(ctx context.Context, c *command) (driver.Grant, error) {
	reply, err := c.send(ctx, d.rdb).Text()
	if err != nil {
		return driver.Grant{}, explain(err)
	}
	return parseReply(reply)
}

// explain says what the server means, where there is a word for it.
func explain(err error) error {
	if strings.Contains(err.Error(), "increment or decrement would overflow") {
		return fmt.Errorf("%w: %w", driver.ErrExhausted, err)
	}
	return err
}

func parseReply(reply string) (driver.Grant, error) {
	word, rest, _ := strings.Cut(reply, " ")
	switch word {
	case "granted":
		text, rest, _ := strings.Cut(rest, " ")
		token, err := fence.ParseToken(text)
		n, ok := numbers(rest, 1)
		if err == nil && ok {
			return driver.Grant{Token: token, TTL: left(n[0])}, nil
		}
	case "held":
		if n, ok := numbers(rest, 1); ok {
			return driver.Grant{}, &driver.Held{RetryAfter: left(n[0])}
		}
	case "queued":
		if n, ok := numbers(rest, 3); ok && n[1] > 0 && n[2] >= 0 {
			return driver.Grant{}, &driver.Queued{RetryAfter: left(n[0]), Ticket: n[1], Ahead: int(n[2])}
		}
	case "lost":
		return driver.Grant{}, driver.ErrLost
	case "abandoned":
		return driver.Grant{}, errAbandoned
	}
	return driver.Grant{}, senseless(reply)
}

// senseless is the error of a reply that no script of ours gives.
func senseless(reply any) error { return fmt.Errorf("redislock: a script replied %#v", reply) }

// numbers reads n integers.
func numbers(text string, n int) (is [3]int64, ok bool) {
	for i := range n {
		var word string
		word, text, _ = strings.Cut(text, " ")
		var err error
		if is[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return is, false
		}
	}
	return is, text == ""
}

// left is what PTTL says; below 0: unknown, or without end.
func left(pttl int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(pttl, 0), most)) * time.Millisecond
}
