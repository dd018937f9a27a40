package memguard_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/guard/memguard"
)

// BenchmarkMutex is what an unguarded in-process critical section costs.
func BenchmarkMutex(b *testing.B) {
	var mu sync.Mutex
	b.ReportAllocs()
	for b.Loop() {
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // SA2001: empty on purpose, it is the baseline
	}
}

func BenchmarkAdmit(b *testing.B) {
	g, c := memguard.New(), claim("auction/7", 34)
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Admit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdmit_Stale(b *testing.B) {
	g, old := memguard.New(), claim("auction/7", 33)
	if err := g.Admit(b.Context(), claim("auction/7", 34)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if g.Admit(b.Context(), old) == nil {
			b.Fatal("admitted")
		}
	}
}

func BenchmarkDo(b *testing.B) {
	g, c := memguard.New(), claim("auction/7", 34)
	nothing := func(context.Context) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Do(b.Context(), c, nothing); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAdmit_NewResources shows what a mark costs to make.
func BenchmarkAdmit_NewResources(b *testing.B) {
	g, c := memguard.New(), claim("", 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Resource = "auction/" + strconv.Itoa(i)
		if err := g.Admit(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDo_Contended(b *testing.B) {
	g := memguard.New()
	shared := claim("auction/7", 34)
	nothing := func(context.Context) error { return nil }
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := g.Do(b.Context(), shared, nothing); err != nil {
				b.Error(err)
			}
		}
	})
}
