package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"
)

// The driver of docs/clients.md's rueidis client, without a memory: addr timeout http-addr limit...
func main() {
	timeout, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	var client rueidis.Client
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if client == nil {
			client, _ = NewClient(os.Args[1], timeout)
		}
		d, err := Take(context.Background(), client, timeout, in.Text(), os.Args[4:]...)
		if err != nil {
			fmt.Println("allowed away")
			continue
		}
		fmt.Println(map[int64]string{0: "allowed", 1: "denied"}[d[0]], "asked")
	}
}
