package memlock

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock/driver"
)

// Inspect implements [driver.Inspector].
func (d *Driver) Inspect(ctx context.Context, resource string) (driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	info := driver.Info{Holder: fence.Fingerprint(uuid.Nil)}
	s, ok := d.states[resource]
	if !ok {
		return info, nil
	}
	s.prune(now)
	info.Waiters = len(s.line)
	switch {
	case s.held(now):
		info.Held = true
		info.Token = s.lease.token
		info.Holder = fence.Fingerprint(s.lease.holder)
		info.Label = s.lease.label
		info.Remaining = s.lease.until.Sub(now)
	case now.Before(s.turn.until):
		info.Waiters++ // who has the turn has left the line, and waits still
	}
	return info, nil
}
