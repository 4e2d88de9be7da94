#!/bin/sh
# Installs hermesd from its source tree, or takes it away again. The packages are made from what this installs.
#
#   contrib/install.sh                     builds what is not built or out of date, and installs under /usr/local
#   PREFIX=/usr contrib/install.sh         under another prefix
#   DESTDIR=/tmp/stage contrib/install.sh  into a directory that only looks like the root, for packagers
#   contrib/install.sh --uninstall         removes the files; your data and configuration stay
set -eu
cd "$(dirname "$0")/.."

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
BUILT=${CARGO_TARGET_DIR:-target}/release
DOC=$PREFIX/share/doc/hermesd

action=install
case ${1:-} in
    '') ;;
    --uninstall) action=uninstall ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

# put MODE SOURCE PLACE: a file that need not be in the tree is passed over.
put() {
    if [ $action = uninstall ]; then
        rm -f "$DESTDIR$3"
    elif [ -e "$2" ]; then
        install -D -m "$1" "$2" "$DESTDIR$3"
    fi
}

# The same for a file that names programs by their path.
put_unit() {
    put 644 "$1" "$2"
    if [ $action = install ]; then
        sed -i "s#/usr/bin/hermesd#$PREFIX/bin/hermesd#; s#/usr/share/doc/hermesd#$DOC#" "$DESTDIR$2"
    fi
}

# Whether the service manager of this very system is to be told.
at_home() { [ -z "$DESTDIR" ] && [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; }

# Whether both programs are there and no source is newer than they are.
is_built() {
    for program in hermesd hermesctl; do
        [ -x "$BUILT/$program" ] || return 1
        [ -z "$(find src Cargo.lock -newer "$BUILT/$program" | head -n 1)" ] || return 1
    done
}

if [ $action = install ] && ! is_built; then
    if ! command -v cargo >/dev/null; then
        echo "hermesd is not built from these sources, and cargo is not on the path: run \`cargo build --release --locked\` as the user who has it" >&2
        exit 1
    fi
    cargo build --release --locked
    # Cargo leaves a program alone that a newer file does not change.
    touch "$BUILT/hermesd" "$BUILT/hermesctl"
fi
if [ $action = uninstall ] && at_home; then
    systemctl disable --now hermesd.socket hermesd.service || true
fi

put 755 "$BUILT/hermesd" "$PREFIX/bin/hermesd"
put 755 "$BUILT/hermesctl" "$PREFIX/bin/hermesctl"
for kind in system user; do
    from=packaging/systemd
    [ $kind = system ] || from=packaging/systemd/user
    for unit in hermesd.service hermesd.socket; do
        put_unit $from/$unit "$PREFIX/lib/systemd/$kind/$unit"
    done
done
# Profiles are a person's own: the system's service serves one home.
for unit in hermesd@.service hermesd@.socket; do
    put_unit packaging/systemd/user/$unit "$PREFIX/lib/systemd/user/$unit"
done
put 644 packaging/systemd/before-253.conf "$PREFIX/share/hermesd/before-253.conf"
put 644 packaging/sysusers.d/hermesd.conf "$PREFIX/lib/sysusers.d/hermesd.conf"
put 644 packaging/tmpfiles.d/hermesd.conf "$PREFIX/lib/tmpfiles.d/hermesd.conf"
put 644 packaging/catalog/hermesd.catalog "$PREFIX/lib/systemd/catalog/hermesd.catalog"
put_unit packaging/systemd/examples/agent.conf "$DOC/examples/agent.conf"
put 644 contrib/hermesd.toml "$DOC/examples/hermesd.toml"
for file in LICENSE README.md CHANGELOG.md; do
    put 644 $file "$DOC/$file"
done
for page in man/*.[1578]; do
    put 644 "$page" "$PREFIX/share/man/man${page##*.}/${page##*/}"
done
for file in contrib/completions/*; do
    name=${file##*/}
    case $name in
        *.bash) put 644 "$file" "$PREFIX/share/bash-completion/completions/${name%.bash}" ;;
        *.fish) put 644 "$file" "$PREFIX/share/fish/vendor_completions.d/$name" ;;
        *.zsh) put 644 "$file" "${ZSH_COMPLETIONS:-$PREFIX/share/zsh/site-functions}/_${name%.zsh}" ;;
    esac
done

if [ $action = uninstall ]; then
    rm -f "$DESTDIR"/etc/systemd/system/hermesd.service.d/before-253.conf "$DESTDIR"/etc/systemd/user/hermesd.service.d/before-253.conf
    rmdir "$DESTDIR$DOC/examples" "$DESTDIR$DOC" "$DESTDIR$PREFIX/share/hermesd" 2>/dev/null || true
    if at_home; then systemctl daemon-reload; fi
    echo "hermesd is removed. What it kept is still there: /var/lib/hermesd, /etc/hermesd and ~/.hermes."
elif at_home; then
    version=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
    if [ "${version:-0}" -lt 253 ]; then
        for kind in system user; do
            install -D -m 644 packaging/systemd/before-253.conf /etc/systemd/$kind/hermesd.service.d/before-253.conf
        done
    fi
    systemd-sysusers "$PREFIX/lib/sysusers.d/hermesd.conf"
    systemd-tmpfiles --create "$PREFIX/lib/tmpfiles.d/hermesd.conf"
    systemctl daemon-reload
    echo "As a service of the system: systemctl enable --now hermesd.service"
    echo "As your own:                systemctl --user enable --now hermesd.service"
fi
