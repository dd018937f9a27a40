package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i // 100 … 1
	}
	for p, want := range map[float64]int{0: 1, 1: 1, 50: 50, 50.1: 51, 99: 99, 99.5: 100, 100: 100} {
		assert.Equal(t, want, percentile(hundred, p), "p%v of 1 to 100", p)
	}
	assert.Equal(t, 7*time.Second, percentile([]time.Duration{7 * time.Second}, 99))
	assert.Zero(t, percentile([]time.Duration(nil), 50))
	assert.Equal(t, 2, percentile([]int{3, 1, 2}, 50))
	assert.Equal(t, 3, percentile([]int{3, 1, 2}, 99), "few values: the largest")
}

func TestMedian(t *testing.T) {
	t.Parallel()
	values := []float64{9, 1, 5}
	assert.Equal(t, 5.0, median(values))
	assert.Equal(t, []float64{9, 1, 5}, values, "left in order: they are pairs")
	assert.Equal(t, 3.0, median([]float64{1, 5}))
	assert.Zero(t, median(nil))
}

func TestRatiosPairRounds(t *testing.T) {
	t.Parallel()
	// A round in which the machine was ten times slower changes both, and the ratio stays.
	assert.Equal(t, 2.0, median(ratios([]float64{200, 20, 200}, []float64{100, 10, 100})))
	// The ratio of the medians would be 1.
	assert.Equal(t, 2.0, median(ratios([]float64{2, 100, 400}, []float64{1, 100, 200})))
	assert.Empty(t, ratios(nil, nil))
}

func TestEvenness(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 1.0, evenness([]int{5, 5, 5}))
	assert.Equal(t, 0.5, evenness([]int{10, 5, 8}))
	assert.Zero(t, evenness([]int{0, 7}))
	assert.Zero(t, evenness([]int{0, 0}))
	assert.Zero(t, evenness(nil))
}
