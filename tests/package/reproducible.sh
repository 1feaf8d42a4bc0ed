#!/bin/sh
# make wheel and make deb in two folders of different names, at different times and with different umasks: the files are equal,
# lintian accepts the Debian packages. Builds everything four times. Requires dpkg-dev, debhelper, lintian and Python 3.11.
. "$(dirname "$0")/../begin.sh"
for tool in dpkg-buildpackage dh lintian; do command -v $tool >/dev/null || wrong "$tool is missing (packages dpkg-dev, debhelper, lintian)"; done
git rev-parse HEAD >/dev/null || wrong "not a clone"
commit=$(git describe --always --dirty --exclude='*' --abbrev=10)
date=$(git log -1 --format=%ct)
mkdir -p "$work/one" "$work/the_other/folder"
for folder in one the_other/folder; do
    git ls-files --cached --others --exclude-standard | tar -cf - -T - | tar -xf - -C "$work/$folder"
done
for folder in one the_other/folder; do
    (
        cd "$work/$folder"
        [ $folder = one ] || umask 077
        COMMIT=$commit SOURCE_DATE_EPOCH=$date make -s -j"$(nproc)" BUILD=build wheel deb >"$work/log" 2>&1
    ) || wrong "$folder: $(tail -20 "$work/log")"
    (cd "$work/$folder/build" && ls ./*.whl ./*.deb && sha256sum ./*.whl ./*.deb) >"$work/list.${folder%%/*}"
done
cat "$work/list.one"
[ "$(grep -c '\.deb$' "$work/list.one")" = 6 ] || wrong "not three Debian packages"
cmp "$work/list.one" "$work/list.the_other" || wrong "two builds differ: $(diff "$work/list.one" "$work/list.the_other")"
lintian --allow-root --fail-on error,warning "$work"/one/build/*.deb >"$work/log" 2>&1 || wrong "lintian: $(cat "$work/log")"
grep -q '^[EW]:' "$work/log" && wrong "lintian: $(cat "$work/log")"
exit 0
