package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// The driver of docs/holds.md's gateway: addr longest. Its input begins requests and ends them:
//
//	begin NAME TENANT ESTIMATE    prints "began", or why not
//	end NAME USED                 prints "ended", or the error
func main() {
	longest, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	g := &Gateway{Client: redis.NewClient(&redis.Options{Addr: os.Args[1], ReadTimeout: time.Minute, PoolTimeout: time.Minute}), Longest: longest}
	type call struct {
		used chan int64
		done chan error
	}
	calls := map[string]call{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word, name, tenant string
		var tokens int64
		if n, _ := fmt.Sscan(in.Text(), &word, &name, &tenant, &tokens); n == 4 && word == "begin" {
			c := call{make(chan int64), make(chan error, 1)}
			began := make(chan struct{})
			go func() {
				c.done <- g.Do(context.Background(), tenant, tokens, func(context.Context) (int64, error) {
					close(began)
					return <-c.used, nil
				})
			}()
			select {
			case <-began:
				calls[name] = c
				fmt.Println("began")
			case err := <-c.done:
				var denied *Denied
				if errors.As(err, &denied) {
					fmt.Println("denied by", denied.Limit, denied.Wait)
				} else {
					fmt.Println(err)
				}
			}
			continue
		}
		fmt.Sscan(in.Text(), &word, &name, &tokens)
		calls[name].used <- tokens
		if err := <-calls[name].done; err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("ended")
		}
	}
}
