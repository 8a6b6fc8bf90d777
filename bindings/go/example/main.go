// Runs an exported network in eight goroutines on the same weights: example net-symbol.json
package main

import (
	"fmt"
	"log"
	"os"
	"sync"

	"gluino.org/gluino"
)

func main() {
	net, err := gluino.Load(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	inputs, err := net.Inputs()
	if err != nil {
		log.Fatal(err)
	}
	shape, n := inputs[0].Shape, int64(1)
	for i, extent := range shape {
		if extent < 0 {
			shape[i] = 2 // a free extent
		}
		n *= shape[i]
	}
	var group sync.WaitGroup
	for g := 0; g < 8; g++ {
		group.Add(1)
		go func(g int) {
			defer group.Done()
			x, err := gluino.FromSlice(make([]float32, n), shape...)
			if err != nil {
				log.Fatal(err)
			}
			y, err := net.Predict(x)
			if err != nil {
				log.Fatal(err)
			}
			numbers, _ := gluino.Values[float32](y[0])
			fmt.Println(g, y[0].Shape(), numbers[0])
		}(g)
	}
	group.Wait()
}
