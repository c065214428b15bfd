// Command clients makes load by clients of the Go SDK, as an application has them. Pairs of users write to each
// other over one connection each, and each user has to get all messages of the other one, in order. It prints the
// CPU time of the clients for each message. The script bench/clients/run does the same with the TypeScript SDK too.
//
//	clients URL MESSAGES < tokens    lines "user token", two users each make a pair
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

const window = 16 // unanswered messages of each user

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run() error {
	messages, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	var users, tokens []string
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var user, token string
		if _, err := fmt.Sscan(lines.Text(), &user, &token); err != nil {
			return fmt.Errorf("read a token: %w", err)
		}
		users, tokens = append(users, user), append(tokens, token)
	}
	var wrong atomic.Int64
	began, before := time.Now(), cpu()
	var all errgroup.Group
	for i := range users {
		all.Go(func() error { return play(os.Args[1], tokens[i], users[i^1], messages, &wrong) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	n := len(users) * messages
	fmt.Printf(
		"Go SDK, %s: %d messages in %.1f s; %d µs of the clients' CPU for each, sent and shown; %d out of order\n",
		runtime.Version(), n, time.Since(began).Seconds(), (cpu()-before).Microseconds()/int64(n), wrong.Load())
	if wrong.Load() > 0 {
		return fmt.Errorf("%d messages came out of order", wrong.Load())
	}
	return nil
}

// play sends the messages of one user and receives those of peer. It adds to wrong the messages that came out of order.
func play(url, token, peer string, messages int, wrong *atomic.Int64) error {
	c, err := petrel.New(petrel.Options{URL: url, Token: petrel.StaticToken(token)})
	if err != nil {
		return err
	}
	return c.While(context.Background(), func(ctx context.Context) error {
		var both errgroup.Group
		both.Go(func() error {
			next := 0
			for m, err := range c.Incoming(ctx) {
				if err != nil {
					return err
				}
				if m.From != peer {
					continue
				}
				if m.GetText() != fmt.Sprintf("message %d", next) {
					wrong.Add(1)
				}
				if next++; next == messages {
					return nil
				}
			}
			return ctx.Err()
		})
		both.Go(func() error {
			under := make(chan *petrel.Outgoing, window) // while it is full, the sender waits for the oldest answer
			var answers errgroup.Group
			answers.Go(func() error {
				var first error
				for out := range under {
					if _, err := out.Wait(ctx); err != nil && first == nil {
						first = err
					}
				}
				return first
			})
			for n := range messages {
				out, err := c.Send(petrel.Draft{User: peer, Text: fmt.Sprintf("message %d", n)})
				if err != nil {
					close(under)
					return errors.Join(err, answers.Wait())
				}
				under <- out
			}
			close(under)
			return answers.Wait()
		})
		return both.Wait()
	})
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
