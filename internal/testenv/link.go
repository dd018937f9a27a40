//go:build unix

package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// link is one client's connection through a proxy, and the connection to the target behind it.
type link struct {
	proxy  *Proxy
	client net.Conn
	ctx    context.Context // ends when the link is cut
	cancel context.CancelFunc

	mu     sync.Mutex
	target net.Conn // nil until dialled

	lossState // guarded by proxy.mu
}

func newLink(p *Proxy, client net.Conn) *link {
	ctx, cancel := context.WithCancel(context.Background())
	return &link{proxy: p, client: client, ctx: ctx, cancel: cancel}
}

// cut resets both sides.
func (l *link) cut() {
	l.cancel()
	l.giveBack() // before the client can know
	reset(l.client)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target != nil {
		reset(l.target)
	}
}

// ignore reads and never answers.
func (l *link) ignore() {
	defer l.finish()
	_, _ = io.Copy(io.Discard, l.client)
}

// relay connects to the target and carries both directions until both have ended, or the link is cut.
func (l *link) relay() {
	defer l.finish()
	if !l.dial() {
		return
	}
	var ends sync.WaitGroup
	for _, s := range []*stream{
		{link: l, direction: requests, from: l.client, to: l.target},
		{link: l, direction: replies, from: l.target, to: l.client},
	} {
		s.queue = make(chan piece, 1024)
		ends.Go(s.read)
		ends.Go(s.write)
	}
	ends.Wait()
}

func (l *link) dial() bool {
	var d net.Dialer
	target, err := d.DialContext(l.ctx, "tcp", l.proxy.target)
	if err != nil {
		l.cut()
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil { // cut while dialling
		reset(target)
		return false
	}
	l.target = target
	return true
}

// finish closes what is left and takes the link off the proxy's list.
func (l *link) finish() {
	l.cancel()
	_ = l.client.Close()
	l.mu.Lock()
	if l.target != nil {
		_ = l.target.Close()
	}
	l.mu.Unlock()
	l.giveBack()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.links, l)
	if l.phase == replySwallowed {
		close(l.loss.done)
	}
}

// fail cuts the link because a side is gone, once that side's news may pass: what is dropped includes
// the end of a connection.
func (l *link) fail(side direction) {
	if l.passes(side) {
		l.cut()
	}
}

// passes waits until the direction is not dropped. It reports false if the link is cut before.
func (l *link) passes(d direction) bool {
	for {
		rules, changed := l.proxy.now()
		if !rules.drops(d) {
			return l.ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			return false
		}
	}
}

// stream is one direction of a link. The reader decides what arrives and when it is due; the writer
// delivers it then. Both end with the link.
type stream struct {
	link      *link
	direction direction
	from, to  net.Conn
	queue     chan piece
}

// piece is what came in one read.
type piece struct {
	data []byte
	due  time.Time
	end  ending
}

type ending int

const (
	more      ending = iota
	endOfFile        // the sender has closed its side
	cutHere          // everything before this is delivered, then the link is cut
)

func (s *stream) read() {
	defer close(s.queue)
	buf := make([]byte, 32<<10)
	for {
		n, err := s.from.Read(buf)
		if n > 0 && !s.arrived(buf[:n]) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded): // set when a reply was lost: it is complete
			s.push(piece{end: cutHere})
			return
		case s.direction == replies && s.link.losing() == replySwallowed:
			s.push(piece{end: cutHere})
			return
		case errors.Is(err, io.EOF):
			if s.link.passes(s.direction) {
				s.push(piece{end: endOfFile})
			}
			return
		default:
			s.link.fail(s.direction)
			return
		}
	}
}

// arrived queues the data unless it is to be swallowed. It reports false if the link is cut.
func (s *stream) arrived(data []byte) bool {
	if s.direction == replies && s.link.swallow() {
		return s.from.SetReadDeadline(time.Now().Add(replyGap)) == nil
	}
	rules, _ := s.link.proxy.now()
	if rules.drops(s.direction) {
		return true
	}
	return s.push(piece{data: append([]byte(nil), data...), due: time.Now().Add(rules.delay[s.direction])})
}

func (s *stream) push(p piece) bool {
	select {
	case s.queue <- p:
		return true
	case <-s.link.ctx.Done():
		return false
	}
}

func (s *stream) write() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p := range s.queue {
		timer.Reset(time.Until(p.due))
		select {
		case <-timer.C:
		case <-s.link.ctx.Done():
			return
		}
		switch p.end {
		case cutHere:
			s.link.cut()
			return
		case endOfFile:
			if s.direction == replies {
				s.link.giveBack() // there will be no reply
			}
			_ = s.to.(*net.TCPConn).CloseWrite() // fails only if that side is gone
			return
		}
		if s.direction == requests && !s.link.forward(p.data) {
			continue
		}
		if _, err := s.to.Write(p.data); err != nil {
			s.link.fail(1 - s.direction) // the receiver is gone
			return
		}
	}
}
