package main

import (
	"math"
	"slices"
)

// percentile is the smallest of the values that at least p percent of them don't exceed (nearest rank):
// the median for 50, the largest for 100. 0 if there are none. It sorts them.
func percentile[T ~int | ~int64 | ~float64](values []T, p float64) T {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// median is the middle value, or the mean of the two in the middle. 0 if there are none.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratios are a[i]/b[i]: each pair was measured in one round, so what slows the machine for some rounds
// falls out of their median.
func ratios(a, b []float64) []float64 {
	rs := make([]float64, min(len(a), len(b)))
	for i := range rs {
		rs[i] = a[i] / b[i]
	}
	return rs
}

// evenness is the least served client's share of the most served one's: 1 is fair, 0 is starved.
func evenness(served []int) float64 {
	if len(served) == 0 || slices.Max(served) == 0 {
		return 0
	}
	return float64(slices.Min(served)) / float64(slices.Max(served))
}
