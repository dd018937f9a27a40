package lock

import (
	"container/heap"
	"slices"
	"time"
)

// leaseHeap is the held leases, those first that are due first.
type leaseHeap struct {
	order leaseOrder
	found []*Lease
}

func (h *leaseHeap) add(le *Lease)    { heap.Push(&h.order, le) }
func (h *leaseHeap) moved(le *Lease)  { heap.Fix(&h.order, le.place) }
func (h *leaseHeap) remove(le *Lease) { heap.Remove(&h.order, le.place) }
func (h *leaseHeap) all() []*Lease    { return slices.Clone(h.order) }
func (h *leaseHeap) empty() bool      { return len(h.order) == 0 }

// next is when the first lease is due.
func (h *leaseHeap) next() (at time.Time, any bool) {
	if len(h.order) == 0 {
		return time.Time{}, false
	}
	return h.order[0].due(), true
}

// together is how much earlier than due a lease is renewed for the sake of one batch with the first.
func (h *leaseHeap) together() time.Duration {
	first := h.order[0]
	return first.config.renewAfter(first.ttl) / 100
}

// due returns the leases that are due by then. It takes none out. The slice is good until the next call.
func (h *leaseHeap) due(then time.Time) []*Lease {
	h.found = h.found[:0]
	h.visit(then, 0)
	return h.found
}

func (h *leaseHeap) visit(then time.Time, i int) {
	if i >= len(h.order) {
		return
	}
	if le := h.order[i]; !le.due().After(then) {
		h.found = append(h.found, le)
		h.visit(then, 2*i+1)
		h.visit(then, 2*i+2)
	}
}

// due is when the lease needs attention: for its renewal, else at its deadline.
func (le *Lease) due() time.Time {
	if !le.renewAt.IsZero() && le.renewAt.Before(le.deadline) {
		return le.renewAt
	}
	return le.deadline
}

// leaseOrder implements [heap.Interface].
type leaseOrder []*Lease

func (o leaseOrder) Len() int           { return len(o) }
func (o leaseOrder) Less(i, j int) bool { return o[i].due().Before(o[j].due()) }

func (o leaseOrder) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place, o[j].place = i, j
}

// Push implements [heap.Interface].
func (o *leaseOrder) Push(x any) {
	le := x.(*Lease)
	le.place = len(*o)
	*o = append(*o, le)
}

// Pop implements [heap.Interface].
func (o *leaseOrder) Pop() any {
	last := len(*o) - 1
	le := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	le.place = -1
	return le
}
