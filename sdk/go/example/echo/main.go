// Echo answers every message to its user once, also when it is killed and
// started again: the store knows how far it is, and each answer has an id of its
// own.
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
	store, err := petrel.OpenFile("echo.store")
	if err != nil {
		log.Fatal(err)
	}
	client, err := petrel.New(petrel.Options{URL: "ws://" + os.Args[1],
		Token: petrel.StaticToken(os.Getenv("PETREL_TOKEN")), Store: store})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = client.While(ctx, func(ctx context.Context) error {
		for m, err := range client.Incoming(ctx) {
			if err != nil {
				return err
			}
			if _, err := client.Send(petrel.Draft{Conv: m.Conv, ID: fmt.Sprint("echo-", m.Conv, "-", m.Seq),
				Text: "You said: " + m.GetText()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
