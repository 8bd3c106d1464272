// A program of Go's for the tests: goroutines that wait with some stack in use,
// threads of their own, memory of a known content. Without cgo no C library is there.
//
//	CGO_ENABLED=0 go build -trimpath -ldflags=-s -o goroutines goroutines.go
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

type record struct {
	id   int
	name string
	next *record
}

//go:noinline
func deep(n int, wait chan int) {
	var room [128]byte
	room[n%128] = 1
	if n == 0 {
		<-wait
	} else {
		deep(n-1, wait)
	}
	_ = room
}

// Uses the processor on its own thread, so that a goroutine's stack is in use.
//
//go:noinline
func spin(n int) int {
	var room [256]byte
	room[n%256] = 1
	if n > 0 {
		return spin(n-1) + int(room[0])
	}
	for i := 0; ; i++ {
		if i == -1 {
			return int(room[1])
		}
	}
}

func main() {
	var keep *record
	for i := 0; i < 20000; i++ {
		keep = &record{i, fmt.Sprintf("record-%d", i), keep}
	}
	big := []byte(strings.Repeat("G", 4<<20))
	wait := make(chan int)
	for i := 0; i < 200; i++ {
		go deep(i%50, wait)
	}
	// Threads that sleep in the kernel, a thread that runs, and threads that idle.
	var ready sync.WaitGroup
	for i := 0; i < 3; i++ {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			var fds [2]int
			_ = syscall.Pipe(fds[:])
			ready.Done()
			var b [1]byte
			_, _ = syscall.Read(fds[0], b[:])
		}()
	}
	ready.Wait()
	go func() {
		runtime.LockOSThread()
		spin(20)
	}()
	fmt.Println("ready", os.Getpid(), keep.id, len(big))
	var fds [2]int
	_ = syscall.Pipe(fds[:])
	var b [1]byte
	_, _ = syscall.Read(fds[0], b[:])
	runtime.KeepAlive(keep)
	runtime.KeepAlive(big)
}
