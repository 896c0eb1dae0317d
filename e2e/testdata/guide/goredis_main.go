package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

// The driver of docs/clients.md's limiter: addr timeout http-addr limit...
func main() {
	timeout, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	var limit []any
	for _, word := range os.Args[4:] {
		limit = append(limit, word)
	}
	l := New(os.Args[1], timeout, true, limit...)
	go http.ListenAndServe(os.Args[3], Limit(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello\n") })))
	closed := New(os.Args[1], timeout, false, limit...)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		one := l
		if in.Text() == "closed" {
			one = closed
		}
		d := one.Take(context.Background(), in.Text())
		fmt.Println(map[bool]string{false: "allowed", true: "denied"}[d.Limited], map[bool]string{false: "asked", true: "away"}[d.Away])
	}
}
