package conformance

import (
	"cmp"
	"os"
	"slices"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/yaml"
)

// sortProfiles writes the report again with its profiles by name: the suite lists them as a map gives them, so that
// two reports that say the same would differ.
func sortProfiles(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var report confv1.ConformanceReport
	if err := yaml.UnmarshalStrict(text, &report); err != nil {
		return err
	}
	slices.SortFunc(report.ProfileReports, func(a, b confv1.ProfileReport) int { return cmp.Compare(a.Name, b.Name) })
	if text, err = yaml.Marshal(report); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
