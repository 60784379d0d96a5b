package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/headway-go/headway/internal/demo"
)

func main() {
	r, err := demo.Run(context.Background(), demo.Settings{View: os.Stderr})
	b, _ := json.MarshalIndent(r, "", " ")
	fmt.Println(string(b), err)
}
