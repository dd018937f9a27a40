//go:build unix

package testenv

import (
	"bytes"
	"slices"
	"time"
)

// replyGap is how long the target must be silent for its reply to count as complete.
const replyGap = 10 * time.Millisecond

// LoseReply makes a client lose exactly one reply: that to the first request, on any connection, that
// contains match ("" is in every request). The request is forwarded; what the target answers is
// swallowed; when it has answered, the connection is cut on both sides, and lost is closed. So the
// target has done what it was asked, and its client cannot know. Everything else works as before,
// also other connections meanwhile. Several calls lose several replies, one each.
//
// The proxy compares bytes and knows no protocol:
//
//   - match may be split over several segments, but it must stand in the request as it is sent: pgx
//     sends the text of a statement with arguments when it prepares it, and not again when it runs it;
//     the text of a statement without arguments ("commit") each time.
//   - "" also matches the greeting of a new connection: use the connection once before.
//   - A reply is what the target sends from then on until it pauses for 10 ms. Replies to earlier
//     requests that are pipelined before the match may be lost with it; requests that follow it are
//     not forwarded once the reply has begun.
//   - If the connection ends before the target has answered, nothing was lost, and the next match counts.
func (p *Proxy) LoseReply(match string) (lost <-chan struct{}) {
	l := &loss{match: []byte(match), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = append(p.losses, l)
	return l.done
}

// loss is one reply to lose.
type loss struct {
	match []byte
	done  chan struct{}
}

// lossState is a link's part in losing a reply.
type lossState struct {
	tail  []byte // the end of what was forwarded: a match may begin there
	loss  *loss  // the one this link was chosen for
	phase lossPhase
}

type lossPhase int

const (
	notLosing      lossPhase = iota
	replyExpected            // the request is, or is about to be, forwarded
	replySwallowed           // some of its reply has arrived
)

func (l *link) losing() lossPhase {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.phase
}

// forward is asked for each piece of a request just before it is sent: may it be? If it completes a
// match, the link is marked first, so that the reply cannot slip through.
func (l *link) forward(data []byte) bool {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.phase != notLosing {
		return l.phase == replyExpected
	}
	if len(p.losses) == 0 {
		l.tail = nil
		return true
	}
	window := slices.Concat(l.tail, data)
	keep := 0
	for i, loss := range p.losses {
		need := len(loss.match) - 1
		from := max(0, len(l.tail)-max(0, need)) // a match must end in data
		if bytes.Contains(window[from:], loss.match) {
			p.losses = slices.Delete(p.losses, i, i+1)
			l.loss, l.phase, l.tail = loss, replyExpected, nil
			return true
		}
		keep = max(keep, need)
	}
	l.tail = window[max(0, len(window)-keep):]
	return true
}

// swallow is asked for each piece of a reply: is it to be lost?
func (l *link) swallow() bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.phase == notLosing {
		return false
	}
	l.phase = replySwallowed
	return true
}

// giveBack is called before the client can see that the connection has ended: if no reply has come by
// then, none was lost, and the next match is to count.
func (l *link) giveBack() {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.phase == replyExpected {
		p.losses = append([]*loss{l.loss}, p.losses...)
		l.loss, l.phase = nil, notLosing
	}
}
