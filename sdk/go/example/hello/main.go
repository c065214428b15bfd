// Hello writes a message to bob and waits until it is stored.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

func main() {
	client, err := petrel.New(petrel.Options{URL: "ws://" + os.Args[1],
		Token: petrel.StaticToken(os.Getenv("PETREL_TOKEN"))})
	if err != nil {
		log.Fatal(err)
	}
	err = client.While(context.Background(), func(ctx context.Context) error {
		message, err := client.Send(petrel.Draft{User: "bob", Text: "hello"})
		if err != nil {
			return err
		}
		seq, err := message.Wait(ctx)
		fmt.Println("stored with seq", seq)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
