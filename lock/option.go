package lock

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ringfence/ringfence/fence"
)

// Option sets how a lease is acquired and kept. Given to [New], it is the default of each call.
type Option func(*config)

type config struct {
	ttl        time.Duration
	renewal    renewal
	renewEvery time.Duration // if renewByTime
	noWaiting  bool
	minHold    time.Duration
	label      string
	seal       Sealer
	retryFor   time.Duration
	log        *slog.Logger // nil: none
	observer   *Observer    // nil: none
	onlyFrom   string       // fingerprint; "": whoever has it
}

// renewal is when a lease renews itself.
type renewal int

const (
	renewByTTL renewal = iota // every third of the TTL
	renewByTime
	renewNever
)

const (
	minTTL   = 20 * time.Millisecond
	maxTTL   = 10 * 365 * 24 * time.Hour
	minEvery = 5 * time.Millisecond
	maxLabel = 128
)

// WithTTL sets how long the lease lives after its grant and after each renewal: whole milliseconds, 20 ms
// to 10 years. Default 30 s.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithRenewEvery sets the time between automatic renewals, 5 ms or more and below the TTL less its
// margin; a renewal comes up to a tenth earlier. Default a third of the TTL, also when [Lease.Renew] has
// set a TTL that is too short for d.
func WithRenewEvery(d time.Duration) Option {
	return func(c *config) { c.renewal, c.renewEvery = renewByTime, d }
}

// WithoutRenewal switches automatic renewal off: the lease is lost after its TTL unless
// [Lease.Renew] is called.
func WithoutRenewal() Option { return func(c *config) { c.renewal = renewNever } }

// WithoutWaiting makes Acquire fail at once: with a [HeldError] if another holder has the resource,
// with [ErrUnavailable] if the store can't be reached.
func WithoutWaiting() Option { return func(c *config) { c.noWaiting = true } }

// WithMinHold keeps the resource taken until d has passed since the grant, even if the lease is
// released before: for jobs that must not run again on a server whose clock is behind. 0 to the TTL.
// Default 0.
func WithMinHold(d time.Duration) Option { return func(c *config) { c.minHold = d } }

// WithLabel sets the text that shows people who holds the resource: at most 128 bytes of UTF-8, no
// control characters. Default host:pid.
func WithLabel(s string) Option { return func(c *config) { c.label = s } }

// WithSeal admits the claim to s before the lease is handed out (L18). s must have the full rule. If it says that the
// claim is stale or a duplicate, the tokens have fallen behind the mark: the lease gets one past it and s is asked
// again (L19), if the store can do that. If s refuses or fails, the lease is released and Acquire returns the
// error of s, wrapped. nil: no seal, the default.
func WithSeal(s Sealer) Option { return func(c *config) { c.seal = s } }

// WithRetryFor sets how long Acquire goes on without any contact with the store before it returns
// [ErrUnavailable]. 0: not at all. Default 5 s.
func WithRetryFor(d time.Duration) Option { return func(c *config) { c.retryFor = d } }

// IfHeldBy limits [Locker.Break] to the lease of one holder, named by its fingerprint: see [Info] and
// [fence.Fingerprint]. If another has the resource by now, Break returns [ErrLost] and changes nothing. "": whoever has
// it, the default.
func IfHeldBy(fingerprint string) Option { return func(c *config) { c.onlyFrom = fingerprint } }

// WithLogger sets where lost leases and failed renewals are logged, as warnings, on goroutines of their
// own: a slow handler delays no lease, and what one that is stuck doesn't take is dropped. nil: nowhere,
// the default.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

func defaults() config {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return config{
		ttl:      30 * time.Second,
		label:    host + ":" + strconv.Itoa(os.Getpid()),
		retryFor: 5 * time.Second,
	}
}

// with returns c as changed by the options, complete and valid.
func (c config) with(opts []Option) (config, error) {
	if len(opts) == 0 {
		return c, c.validate()
	}
	c, err := c.apply(opts)
	if err != nil {
		return c, err
	}
	return c, c.validate()
}

func (c config) apply(opts []Option) (config, error) {
	for _, o := range opts {
		if o == nil {
			return c, errNilOption
		}
		o(&c)
	}
	return c, nil
}

var errNilOption = fmt.Errorf("%w: an option is nil", fence.ErrInvalid)

func (c config) validate() error {
	if err := validateTTL("WithTTL", c.ttl); err != nil {
		return err
	}
	most := c.ttl - margin(c.ttl)
	switch {
	case c.renewal == renewByTime && (c.renewEvery < minEvery || c.renewEvery >= most):
		return fmt.Errorf("%w: WithRenewEvery(%v): want at least %v and below %v, the TTL of %v less its margin",
			fence.ErrInvalid, c.renewEvery, minEvery, most, c.ttl)
	case c.minHold < 0 || c.minHold > c.ttl:
		return fmt.Errorf("%w: WithMinHold(%v): want 0 to %v, the TTL", fence.ErrInvalid, c.minHold, c.ttl)
	case c.retryFor < 0:
		return fmt.Errorf("%w: WithRetryFor(%v): want 0 or more", fence.ErrInvalid, c.retryFor)
	}
	if err := validateFingerprint(c.onlyFrom); err != nil {
		return err
	}
	return validateLabel(c.label)
}

func validateTTL(name string, d time.Duration) error {
	if d < minTTL || d > maxTTL || d%time.Millisecond != 0 {
		return fmt.Errorf("%w: %s(%v): want whole milliseconds, %v to %v", fence.ErrInvalid, name, d, minTTL, maxTTL)
	}
	return nil
}

func validateLabel(s string) error {
	if len(s) > maxLabel || !utf8.ValidString(s) {
		return fmt.Errorf("%w: WithLabel(%.40q): want at most %d bytes of UTF-8", fence.ErrInvalid, s, maxLabel)
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: WithLabel(%q): has the control character %U, want none", fence.ErrInvalid, s, r)
		}
	}
	return nil
}

// renewAfter is the time from one renewal of a lease of ttl to the next; 0: it does not renew itself.
func (c config) renewAfter(ttl time.Duration) time.Duration {
	switch {
	case c.renewal == renewNever:
		return 0
	case c.renewal == renewByTime && c.renewEvery < ttl-margin(ttl):
		return c.renewEvery
	default:
		return ttl / 3
	}
}

// validateFingerprint has "none" be no holder's: a free resource, or a minimum hold.
func validateFingerprint(s string) error {
	if decoded, err := hex.DecodeString(s); s != "" && (err != nil || len(decoded) != 4) {
		return fmt.Errorf("%w: IfHeldBy(%q): want the fingerprint of a holder, 8 hex digits", fence.ErrInvalid, s)
	}
	return nil
}
