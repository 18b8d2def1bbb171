package node

import (
	"fmt"
	"os"
	"strconv"
)

// Number tells clusters on one host apart: 0 for the one that everybody means, or what the environment says in SALLYPORT_CLUSTER (1 to 9),
// so that two checkouts can be tried at a time, and meshes of several clusters.
var Number = number(os.Getenv("SALLYPORT_CLUSTER"))

// Name is in the names of everything that the cluster takes of the host.
var Name = named(Number)

func number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 9 {
		panic(fmt.Sprintf("SALLYPORT_CLUSTER is %q: it has to be a number up to 9", text))
	}
	return n
}

func named(number int) string {
	if number == 0 {
		return "sallyport-e2e"
	}
	return "sallyport-e2e-" + strconv.Itoa(number)
}
