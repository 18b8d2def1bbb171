package program_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/cmd/program"
)

func TestDirectory(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		folder:                          "",
		filepath.Join(folder, "none"):   "there is no such directory",
		file:                            "it is a file",
		filepath.Join(file, "inside"):   "not a directory", // what the system says, whatever it is
		filepath.Join(folder, "\x00no"): "invalid argument",
	} {
		err := program.Directory("--config-dir", name)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--config-dir") || program.ExitCode(err) != program.Usage) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
