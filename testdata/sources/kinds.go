// A Go program for a recorded core: goroutines of each kind of wait, objects of each grade, a heap profile.
// Build: CGO_ENABLED=0 go build -trimpath -buildmode=pie -ldflags="-s -w" ; core: the kernel's, by SIGABRT at the end.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"
)

type Session struct {
	ID    uint64
	Owner string
	Next  *Session
	Data  []byte
}

type Record struct {
	Name  string
	Links [78]*Session
}

type Plan struct {
	mu    sync.Mutex
	names map[string]*Session
}

var (
	sessions = map[string]*Session{}
	records  []*Record
	queue    = make(chan *Session, 16)
	events   = make(chan int)
	plan     = &Plan{names: map[string]*Session{}}
	layout   = make(chan int)
)

//go:noinline
func makeSession(i int) *Session {
	return &Session{ID: uint64(i), Owner: fmt.Sprint("owner-", i), Data: make([]byte, 40)}
}

//go:noinline
func publish(i int) { events <- i }

//go:noinline
func (p *Plan) Change() {
	p.mu.Lock()
	defer p.mu.Unlock()
	<-layout
}

//go:noinline
func (p *Plan) Reserve() {
	p.mu.Lock()
	defer p.mu.Unlock()
}

func counter(n int) func() int { return func() int { n++; return n } }

var counters []func() int

func main() {
	runtime.MemProfileRate = 4096
	runtime.GOMAXPROCS(2)
	var last *Session
	for i := 0; i < 500; i++ {
		s := makeSession(i)
		s.Next, last = last, s
		sessions[s.Owner] = s
	}
	for i := 0; i < 20; i++ {
		records = append(records, &Record{Name: "r", Links: [78]*Session{0: last}})
	}
	for i := 0; i < 9; i++ {
		queue <- makeSession(1000 + i)
	}
	for i := 0; i < 30; i++ {
		counters = append(counters, counter(i))
	}
	for i := 0; i < 40; i++ {
		go publish(i)
	}
	go plan.Change()
	time.Sleep(20 * time.Millisecond)
	for i := 0; i < 5; i++ {
		go plan.Reserve()
	}
	var group sync.WaitGroup
	group.Add(1)
	go func() { group.Wait() }()
	go time.Sleep(time.Hour)
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	f, _ := os.Create(os.Args[1] + "/goroutines.txt")
	pprof.Lookup("goroutine").WriteTo(f, 2)
	f.Close()
	f, _ = os.Create(os.Args[1] + "/heap.txt")
	pprof.Lookup("heap").WriteTo(f, 1)
	f.Close()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	text, _ := json.Marshal(map[string]any{"HeapInuse": m.HeapInuse, "NumGC": m.NumGC, "NextGC": m.NextGC})
	_ = text
	die(&m)
}

//go:noinline
func die(m *runtime.MemStats) {
	line := fmt.Appendf(nil, `{"HeapInuse": %d, "HeapAlloc": %d, "HeapObjects": %d, "StackInuse": %d, "NumGC": %d, "NextGC": %d}`,
		m.HeapInuse, m.HeapAlloc, m.HeapObjects, m.StackInuse, m.NumGC, m.NextGC)
	os.WriteFile(os.Args[1]+"/memstats.json", line, 0o644)
	syscall.RawSyscall(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGABRT), 0, 0)
	syscall.RawSyscall(syscall.SYS_KILL, uintptr(os.Getpid()), uintptr(syscall.SIGSTOP), 0)
	runtime.KeepAlive(sessions)
}
