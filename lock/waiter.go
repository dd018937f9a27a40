package lock

import (
	"github.com/google/uuid"

	"github.com/ringfence/ringfence/lock/driver"
)

// waiter is an acquisition that is told of its turn. The line's mutex guards it.
type waiter struct {
	holder uuid.UUID     // zero: none
	inLine bool          // the store has given it a place
	wake   chan struct{} // one slot; nil until it has a place
	said   message       // what it was told last
	unread bool
}

// message is what a waiter is told.
type message struct {
	turn driver.Turn
	anew bool // nothing, but there is a new subscription: what was said before may be lost
}

func (m message) isTurn() bool { return !m.anew && m.turn.After == 0 }

// hear takes a message in. One that it has not read yet is outdated by that, but for its turn.
func (w *waiter) hear(m message) {
	if w.unread && w.said.isTurn() {
		return
	}
	w.said, w.unread = m, true
	w.rouse()
}

func (w *waiter) rouse() {
	if w.wake == nil || !w.unread {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
