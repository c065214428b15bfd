//go:build !race

package stream

const schedules = 10000 // random ones that run
