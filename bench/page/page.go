// Package page writes a result of `petrel bench` as one HTML file without external parts. Its source is the
// folder web/report of the tree.
package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/petrel-im/petrel/bench"
	"github.com/petrel-im/petrel/bench/compare"
)

//go:embed page.html
var page []byte

// place is the text of the page that the data replaces.
var place = []byte("<!--data-->")

// data is the content of a page. Besides Kind, only the fields of that kind are set.
type data struct {
	Kind       string              `json:"kind"`
	Report     *bench.Report       `json:"report,omitempty"`
	Runs       []*bench.Report     `json:"runs,omitempty"`
	Problems   []any               `json:"problems,omitempty"` // why a run is red: lines, and checks
	Comparison *compare.Comparison `json:"comparison,omitempty"`
	History    *compare.History    `json:"history,omitempty"`
	Knee       *bench.Knee         `json:"knee,omitempty"`
	Estimate   *bench.Estimate     `json:"estimate,omitempty"`
	Story      *bench.Story        `json:"story,omitempty"`

	Reliability *bench.ReliabilityReport `json:"reliability,omitempty"`
}

// Run writes the page of one run. found has the errors of the run; nil if it is clean.
func Run(w io.Writer, r *bench.Report, found error) error {
	return write(w, data{Kind: "run", Report: r, Problems: problems(found)})
}

// Cluster writes the page of runs with several numbers of nodes.
func Cluster(w io.Writer, t *bench.Table, found error) error {
	return write(w, data{Kind: "cluster", Runs: t.Runs, Problems: problems(found)})
}

// Knee writes the page of a search for the highest rate.
func Knee(w io.Writer, k *bench.Knee) error {
	return write(w, data{Kind: "knee", Knee: k})
}

// Story writes the page of the scenario quick.
func Story(w io.Writer, s *bench.Story, found error) error {
	return write(w, data{Kind: "story", Story: s, Problems: problems(found)})
}

// Reliability writes the page of the scenario openim-reliability.
func Reliability(w io.Writer, r *bench.ReliabilityReport, found error) error {
	return write(w, data{Kind: "reliability", Reliability: r, Problems: problems(found)})
}

// Comparison writes the page of two sets of runs.
func Comparison(w io.Writer, c *compare.Comparison) error {
	return write(w, data{Kind: "comparison", Comparison: c})
}

// History writes the page of the runs of a folder.
func History(w io.Writer, h *compare.History) error {
	return write(w, data{Kind: "history", History: h})
}

// Estimate writes the page of what a plan needs.
func Estimate(w io.Writer, e *bench.Estimate) error {
	return write(w, data{Kind: "estimate", Estimate: e})
}

func write(w io.Writer, d data) error {
	b, err := json.Marshal(d) // JSON writes < as \u003c, so no text ends the script
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	before, after, found := bytes.Cut(page, place)
	if !found {
		return errors.New("write the page: it has no place for the data")
	}
	_, err = w.Write(bytes.Join([][]byte{before, b, after}, nil))
	return err
}

// problems returns the lines of an error. A failed check stays a value, which the page words in its language.
func problems(err error) (all []any) {
	switch err := err.(type) {
	case nil:
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			all = append(all, problems(one)...)
		}
	case bench.FailedCheck:
		all = append(all, err.Check)
	default:
		for line := range bytes.Lines([]byte(err.Error())) {
			all = append(all, string(bytes.TrimSpace(line)))
		}
	}
	return all
}
