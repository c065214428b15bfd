// Package simulation plays whole nodes under one seed.
package simulation
