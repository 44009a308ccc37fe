/**
 * The script that installs a release on a machine. It runs in Debian's sh, as root. Arguments: a step, the release, and
 * the checksums of the archive and of its list of checksums. Each step may be repeated after a cut at any line.
 */
export const INSTALL_SCRIPT = `
set -eu
umask 022
step=$1 id=$2 archive_sum=$3 manifest_sum=$4
home=/opt/slipway releases=/opt/slipway/releases archive=/opt/slipway/incoming/$2.tar.gz

has_sum() { [ "$(sha256sum < "$1")" = "$2  -" ]; }
is_whole() {
  [ -f "$1/SHA256SUMS" ] && has_sum "$1/SHA256SUMS" "$manifest_sum" &&
    (cd "$1" && sha256sum --check --status SHA256SUMS)
}
link() {
  ln -sfn "$1" "$home/.$2.new"
  mv -fT "$home/.$2.new" "$home/$2"
}

# Prints the next step: upload, unpack or switch.
find_next() {
  mkdir -p "$releases" "$home/incoming"
  if is_whole "$releases/$id" 2>/dev/null; then echo switch; return; fi
  find "$home/incoming" -mindepth 1 ! -path "$archive" -delete
  if [ -f "$archive" ] && has_sum "$archive" "$archive_sum"; then echo unpack; return; fi
  rm -f "$archive"
  echo upload
}

unpack() {
  rm -rf "$releases"/*.partial "$releases"/*.damaged
  mkdir "$releases/$id.partial"
  trap 'rm -rf "$releases/$id.partial"' EXIT
  tar --extract --gzip --no-same-owner --same-permissions --file "$archive" --directory "$releases/$id.partial"
  if ! is_whole "$releases/$id.partial"; then
    echo 'The unpacked files differ from their list of checksums.' >&2
    exit 1
  fi
  sync --file-system "$releases"
  if [ -e "$releases/$id" ]; then mv -T "$releases/$id" "$releases/$id.damaged"; fi
  mv -T "$releases/$id.partial" "$releases/$id"
}

switch() {
  current=$(readlink "$home/current" || true)
  if [ "$current" != "releases/$id" ]; then
    if [ -n "$current" ]; then link "$current" former; fi
    link "releases/$id" current
  fi
  former=$(readlink "$home/former" || true)
  for release in "$releases"/*; do
    case "releases/\${release##*/}" in "releases/$id" | "$former") ;; *) rm -rf "$release" ;; esac
  done
  rm -rf "$home/incoming"
  sync --file-system "$releases"
}

case $step in find) find_next ;; unpack) unpack ;; switch) switch ;; esac
`;
