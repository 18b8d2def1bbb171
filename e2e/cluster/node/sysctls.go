package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sysctls are those that the kubelet sets and that no namespace holds.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

const (
	sysctlRoot = "/proc/sys"
	sysctlName = "sysctls.json"
)

// saveSysctls remembers the host's values. Those of an earlier node that died are kept: they are the host's.
func saveSysctls(dir string) error {
	path := filepath.Join(dir, sysctlName)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	values := map[string]string{}
	for _, name := range sysctls {
		value, err := os.ReadFile(filepath.Join(sysctlRoot, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		values[name] = strings.TrimSpace(string(value))
	}
	content, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func restoreSysctls(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, sysctlName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var values map[string]string
	if err := json.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, sysctlName), err)
	}
	var errs []error
	for name, value := range values {
		errs = append(errs, os.WriteFile(filepath.Join(sysctlRoot, name), []byte(value), 0))
	}
	return errors.Join(errs...)
}
