package digest

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// domains is the field of envoy.config.route.v3.VirtualHost.
const domains protowire.Number = 2

// Domains calls f with each domain of a row (a serialized VirtualHost) that is called TABLE/HOST, in lower case.
func Domains(name string, row []byte, f func(domain string)) {
	_, host, _ := strings.Cut(name, "/")
	Fields(row, domains, func(value []byte) {
		domain := strings.ToLower(string(value))
		if domain == host {
			domain = host // of the name's own bytes
		}
		f(domain)
	})
}

// Fields calls f with each value of a length-delimited field of a message.
func Fields(message []byte, field protowire.Number, f func(value []byte)) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(number, kind, message); size < 0 {
			return
		}
		if number == field && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			f(value)
		}
		message = message[size:]
	}
}
