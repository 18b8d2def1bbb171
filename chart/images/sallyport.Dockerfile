# The control plane and the audit server. From the repository's root:
#   docker build -f chart/images/sallyport.Dockerfile --build-arg VERSION=v0.1.0 -t sallyport:v0.1.0 .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags "-s -w -X main.version=${VERSION}" -o /out/usr/local/bin/sallyport ./cmd/sallyport
# Its libraries (DuckDB needs the C++ ones), the system's roots, and a user; no shell, no package manager.
RUN ldd /out/usr/local/bin/sallyport | grep -o '/[^ ]*' | xargs -I{} cp -L --parents {} /out \
 && cp --parents /etc/ssl/certs/ca-certificates.crt /out \
 && echo 'sallyport:x:65532:65532::/var/lib/sallyport:/sbin/nologin' > /out/etc/passwd \
 && mkdir -p /out/tmp /out/var/lib/sallyport && chown 65532:65532 /out/var/lib/sallyport && chmod 1777 /out/tmp

FROM scratch
COPY --from=build /out /
USER 65532:65532
ENV PATH=/usr/local/bin
ENTRYPOINT ["/usr/local/bin/sallyport"]
