package memlock

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringfence/ringfence/lock/driver"
)

// listening is one call of Listen.
type listening struct{ turn func(driver.Turn) }

// Listen implements [driver.Waiter]. turn is called within the call that gives the turn: it may not
// call the driver. It is not called any more once Listen has returned.
func (d *Driver) Listen(ctx context.Context, listener uuid.UUID, ready func(), turn func(driver.Turn)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &listening{turn}
	d.mu.Lock()
	d.listeners[listener] = append(d.listeners[listener], l)
	d.mu.Unlock()
	defer d.deafen(listener, l)
	ready()
	<-ctx.Done()
	return ctx.Err()
}

func (d *Driver) deafen(listener uuid.UUID, l *listening) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := slices.DeleteFunc(d.listeners[listener], func(other *listening) bool { return other == l })
	if len(left) == 0 {
		delete(d.listeners, listener)
		return
	}
	d.listeners[listener] = left
}

// tell tells w's listener, if somebody listens. What is not heard is not repeated: a waiter asks by
// itself about once a second.
func (d *Driver) tell(w waiter, after time.Duration) {
	for _, l := range d.listeners[w.listener] {
		l.turn(driver.Turn{Holder: w.holder, After: after})
	}
}
