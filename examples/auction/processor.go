package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lock"
)

const (
	triesPerBid   = 10
	acquireWithin = 20 * time.Second // beside the TTL
	closeWithin   = 2 * time.Second
)

// processor is the child process: it takes bids one by one and writes those that are the highest.
type processor struct {
	setup
	locker *lock.Locker
	rows   rows
	orders <-chan order
	out    *json.Encoder
}

// runProcessor is the child's main function. It ends, with status 0, when its input does.
func runProcessor(in io.Reader, out io.Writer) int {
	signal.Ignore(os.Interrupt) // the parent decides when to end
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := &processor{out: json.NewEncoder(out)}
	lines := json.NewDecoder(bufio.NewReader(in))
	if err := lines.Decode(&p.setup); err != nil {
		return 0 // the parent has ended already
	}
	if err := p.open(ctx); err != nil {
		p.report(report{Kind: failed, Text: err.Error()})
		return 1
	}
	defer p.close()

	orders := make(chan order)
	p.orders = orders
	go func() {
		defer cancel() // also in the middle of a bid
		for {
			var o order
			if lines.Decode(&o) != nil {
				return
			}
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	p.report(report{Kind: ready})
	for {
		select {
		case o := <-orders:
			p.take(ctx, o)
		case <-ctx.Done():
			return 0
		}
	}
}

func (p *processor) open(ctx context.Context) (err error) {
	rdb, err := p.Locks.client()
	if err != nil {
		return err
	}
	if p.locker, err = lock.New(p.Locks.driver(rdb), lock.WithTTL(p.TTL)); err != nil {
		return err
	}
	p.rows, err = openRows(ctx, p.Rows, p.Prefix)
	return err
}

func (p *processor) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = p.locker.Close(ctx) // what it can't release, expires
	p.rows.Close()
}

// report tells the parent. A parent that is gone is noticed at the end of the input.
func (p *processor) report(r report) { _ = p.out.Encode(r) }

// take processes one bid until it is decided. A refused write decides nothing: it rested on what was
// read before the pause. So the bid is tried again, under a fresh lease and on what the row says then.
func (p *processor) take(ctx context.Context, o order) {
	if o.Bid == nil {
		return
	}
	a := attempt{processor: p, bid: *o.Bid, pause: o.Pause}
	for try := 1; ; try++ {
		r, err := a.run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.report(r)
			return
		case try == triesPerBid || !passing(err):
			p.report(report{Kind: failed, Text: err.Error()})
			return
		}
	}
}

// passing reports whether another try, under a fresh lease, may help: this one ran out under way, the
// database was busy, or its answer was lost. The lock has tried again by itself before it says that it
// is unavailable.
func passing(err error) bool {
	var late *fence.RejectedError
	return errors.As(err, &late) || !errors.Is(err, lock.ErrUnavailable) && (errors.Is(err, lock.ErrLost) ||
		errors.Is(err, fence.ErrUnavailable) || errors.Is(err, fence.ErrOutcomeUnknown) || errors.Is(err, context.Canceled))
}

// attempt is a bid on its way.
type attempt struct {
	*processor
	bid    bid
	pause  bool        // still to come
	unsure fence.Token // of a write whose answer was lost
}

// run acquires the auction, reads what its row says, and writes the bid if that is higher: in this
// order. The lease is sealed, so what is read under it can't be changed by an older holder any more.
func (a *attempt) run(ctx context.Context) (report, error) {
	var options []lock.Option
	if a.Guard {
		options = append(options, lock.WithSeal(a.rows.Seal()))
	}
	if a.pause && a.Simulated {
		options = append(options, lock.WithoutRenewal()) // a process that stands still renews nothing
	}
	waiting, cancel := context.WithTimeout(ctx, acquireWithin+a.TTL)
	defer cancel()
	lease, err := a.locker.Acquire(waiting, a.Prefix+a.bid.Auction, options...)
	if err != nil {
		return report{}, err
	}
	defer func() { _ = lease.Release(ctx) }() // an error: it has run out, or will
	token := lease.Token()
	a.report(report{Kind: acquired, Token: token})

	held, done := lease.Bind(ctx) // ends with the lease
	defer done()
	now, err := a.rows.Read(held, a.bid.Auction)
	switch {
	case err != nil:
		return report{}, fmt.Errorf("read: %w", err)
	case a.unsure != 0 && now.Token == a.unsure: // the answer was lost, the write was not
		return report{Kind: applied, Token: a.unsure}, nil
	case a.bid.Amount <= now.Amount:
		return report{Kind: outbid, Token: token, Standing: now}, nil
	}
	if err := lease.Err(); err != nil { // the last check that a client can make
		return report{}, err
	}
	if a.pause {
		// From here to the write nothing looks at the clock again: the write stands for a request that
		// had left when the pause came. A context that ends with the lease would mostly keep back what
		// is written after the pause - mostly, and no request that is under way can be called back.
		held = context.WithoutCancel(held)
		a.pause = false
		a.report(report{Kind: brink, Token: token, Standing: now})
		if err := a.standStill(ctx); err != nil {
			return report{}, err
		}
	}
	err = a.write(held, lease.Claim())
	var late *fence.RejectedError
	switch {
	case err == nil:
		return report{Kind: applied, Token: token}, nil
	case errors.As(err, &late):
		a.report(report{Kind: refused, Token: token, Mark: late.Mark, Late: time.Since(lease.Deadline())})
	case errors.Is(err, fence.ErrOutcomeUnknown):
		a.unsure = token
	}
	return report{}, fmt.Errorf("write: %w", err)
}

func (a *attempt) write(ctx context.Context, c fence.Claim) error {
	if !a.Guard {
		return a.rows.Overwrite(ctx, c, a.bid)
	}
	return a.rows.Write(ctx, c, a.bid)
}

// standStill is the point between the read and the write at which the parent stops this process. The
// parent says go while it stands still: SIGSTOP alone holds it.
func (p *processor) standStill(ctx context.Context) error {
	for {
		select {
		case o := <-p.orders:
			if o.Go {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
