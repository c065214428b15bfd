// Echo answers every text to its user, each once, also over restarts: it goes
// on behind its read cursor, and each answer has an id of its own.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

func main() {
	client, err := petrel.New(petrel.Options{URL: "ws://" + os.Args[1], Token: petrel.StaticToken(os.Getenv("PETREL_TOKEN"))})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = client.While(ctx, func(ctx context.Context) error {
		changes := client.Subscribe()
		defer changes.Close()
		for {
			change, err := changes.Next(ctx)
			if err != nil {
				return nil // Ctrl-C
			}
			for _, conv := range change.Conversations {
				if err := answer(ctx, client, conv); err != nil {
					log.Print(err)
				}
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
}

// answer answers what came in a conversation since its read cursor.
func answer(ctx context.Context, client *petrel.Client, conv string) error {
	state, _ := client.Conversation(conv)
	if !state.Known {
		return nil // the change that makes it known is to come
	}
	messages, err := client.Since(ctx, conv, state.Read, 0)
	for _, m := range messages {
		if m.From != client.Status().User && m.GetText() != "" {
			reply, err := client.Send(petrel.Draft{Conv: conv, ID: fmt.Sprintf("echo-%d", m.Seq), Text: "You said: " + m.GetText()})
			if err == nil {
				_, err = reply.Wait(ctx)
			}
			if err != nil {
				return err
			}
		}
		client.MarkRead(conv, m.Seq) // moves on, and is a change: what is left follows
	}
	return err
}
