package redislock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Inspect implements [driver.Inspector]. The holder of a lease that a program of the plain recipe has is
// told by a fingerprint of its value.
func (d *Driver) Inspect(ctx context.Context, resource string) (driver.Info, error) {
	seen, err := d.look(ctx, resource)
	if err != nil {
		return driver.Info{}, err
	}
	l := seen.lease()
	info := driver.Info{Held: l.held, Token: l.token, Holder: l.fingerprint, Label: l.label, Waiters: seen.waiters}
	if l.turn {
		info.Waiters++ // whose turn it is has left the queue
	}
	if l.held {
		info.Remaining = seen.left
	}
	return info, nil
}

// sight is what stands in the store.
type sight struct {
	taken   bool
	value   string // of the lease key, if taken
	left    time.Duration
	waiters int
}

func (d *Driver) look(ctx context.Context, resource string) (sight, error) {
	k := keysOf(resource, uuid.Nil)
	reply, err := inspectScript.call(2, k.lease).text(k.queue).send(ctx, d.rdb).Slice()
	if err != nil {
		return sight{}, err
	}
	if len(reply) == 3 {
		value, taken := reply[0].(string) // nil: free
		pttl, isTTL := reply[1].(int64)
		waiters, isCount := reply[2].(int64)
		if isTTL && isCount {
			return sight{taken, value, left(pttl), int(waiters)}, nil
		}
	}
	return sight{}, fmt.Errorf("redislock: a script replied %d values, or others than it should", len(reply))
}

func (s sight) lease() lease {
	if !s.taken {
		return lease{fingerprint: fence.Fingerprint(uuid.Nil)}
	}
	return parseLease(s.value)
}

// lease is the value of a lease key.
type lease struct {
	held, turn  bool
	holder      uuid.UUID // zero: nobody, or a program of the plain recipe
	token       fence.Token
	fingerprint string
	label       string
}

// parseLease reads "<holder> <token> <label>", "released <token> <label>", "turn <holder>", or the
// value of a program that uses the plain recipe, which may be anything.
func parseLease(value string) lease {
	none := fence.Fingerprint(uuid.Nil)
	first, rest, _ := strings.Cut(value, " ")
	text, label, isOurs := strings.Cut(rest, " ")
	token, err := fence.ParseToken(text)
	isOurs = isOurs && err == nil
	switch {
	case first == "turn" && isHolder(rest):
		return lease{turn: true, fingerprint: none}
	case first == "released" && isOurs:
		return lease{held: true, token: token, fingerprint: none, label: label}
	case isHolder(first) && isOurs:
		holder := uuid.MustParse(first)
		return lease{held: true, holder: holder, token: token, fingerprint: fence.Fingerprint(holder), label: label}
	}
	sum := sha256.Sum256([]byte(value))
	return lease{held: true, fingerprint: hex.EncodeToString(sum[:4])}
}

// isHolder reports whether text is a holder as we write it.
func isHolder(text string) bool {
	id, err := uuid.Parse(text)
	return err == nil && id != uuid.Nil && id.String() == text
}
