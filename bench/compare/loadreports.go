// Package compare compares reports of `petrel bench`: two sets of repeated runs with each other, and the runs
// of a folder in the order of time.
package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/bench"
)

// Run is a report and the file that it is from.
type Run struct {
	File   string        `json:"file"`
	Report *bench.Report `json:"report"`
}

// Load reads reports, the oldest first: those in the named files, and in all files *.json below named folders.
// From a file with several runs, such as that of the scenario cluster, it takes each run. In a folder it skips
// files that are no reports; a named file that is none is an error.
func Load(names ...string) ([]Run, error) {
	var all []Run
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			runs, err := load(name)
			if err != nil {
				return nil, err
			}
			all = append(all, runs...)
			continue
		}
		err = filepath.WalkDir(name, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json") {
				return err
			}
			runs, err := load(file)
			if errors.As(err, new(*NoReportError)) {
				return nil
			}
			all = append(all, runs...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b Run) int { return a.Report.At.Compare(b.Report.At) })
	return all, nil
}

// NoReportError is the error of a file that is no report.
type NoReportError struct {
	File  string
	Cause error // nil: it is JSON of something else
}

func (e *NoReportError) Error() string {
	if e.Cause == nil {
		return e.File + " is no report of petrel bench"
	}
	return fmt.Sprintf("%s is no report of petrel bench: %v", e.File, e.Cause)
}

func (e *NoReportError) Unwrap() error { return e.Cause }

func load(file string) ([]Run, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r struct {
		bench.Report
		Runs []*bench.Report `json:"runs"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, &NoReportError{file, err}
	}
	if r.Runs == nil {
		r.Runs = []*bench.Report{&r.Report}
	}
	var runs []Run
	for _, one := range r.Runs {
		if one.Scenario == "" || one.At.IsZero() {
			return nil, &NoReportError{File: file}
		}
		runs = append(runs, Run{file, one})
	}
	return runs, nil
}
