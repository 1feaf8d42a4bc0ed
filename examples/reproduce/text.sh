#!/bin/sh
# Writes the training text of these experiments, about 30 MB of English, from packages of Debian.
#
#     sh examples/reproduce/text.sh text.txt
#     sh examples/reproduce/text.sh bibles.txt kjv web      # two of the sources
#
# apt-get downloads the packages; nothing is installed and root is not needed. The sources and their licenses:
#
#     kjv       bible-kjv-text     King James Bible            public domain
#     web       sword-text-web     World English Bible         public domain
#     gcide     dict-gcide         GNU dictionary of English   GPL-2+ (every second part of it)
#     handbook  debian-handbook    Debian handbook             GPL-2+ or CC-BY-SA-3.0
#     man       manpages, -dev     Linux manual pages          permissive, GPL-2+ and others, per page
#
# The parts of all sources alternate in proportion, so the end of the file, which `moec` keeps for validation, has the
# same mixture as the rest.
set -eu
LC_ALL=C
export LC_ALL
[ $# != 0 ] || { echo "usage: sh text.sh FILE [SOURCE...]" >&2; exit 2; }
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
sources=${*:-kjv web gcide handbook man}
packages=
for each in $sources; do
    case $each in
    kjv) packages="$packages bible-kjv bible-kjv-text" ;;
    web) packages="$packages sword-text-web" ;;
    gcide) packages="$packages dict-gcide" ;;
    handbook) packages="$packages debian-handbook" ;;
    man) packages="$packages manpages manpages-dev" ;;
    *) echo "text.sh: '$each' is not a source: expected kjv, web, gcide, handbook or man" >&2; exit 2 ;;
    esac
done
command -v apt-get >/dev/null || { echo "text.sh: expected a Debian system with apt-get" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

echo "downloading$packages"
# shellcheck disable=SC2086 # several words
apt-get -qq download $packages 2>download.log || { cat download.log >&2; exit 1; }
for deb in *.deb; do dpkg-deb -x "$deb" .; done

# The King James Bible without the numbers of the verses.
kjv() {
    (cd usr/lib && ../bin/bible -f gen1:1-rev22:21 </dev/null) | sed 's/^[^ ]* *//'
}

# The World English Bible: zlib blocks, listed with offset and size in a file of 32-bit numbers. gzip reads the same data
# after another header; it complains of the end, which has another checksum.
blocks() {
    od -An -v -tu4 -w12 "$1.bzs" | while read -r offset size _; do
        { printf '\037\213\010\0\0\0\0\0\0\003'; tail -c +$((offset + 3)) "$1.bzz" | head -c $((size - 2)); } |
            gzip -dc 2>/dev/null || :
    done
}
web() {
    folder=usr/share/sword/modules/texts/ztext/engWEB2015eb
    { blocks $folder/ot; blocks $folder/nt; } |
        sed -e 's/<note[^>]*>/\n<note>/g; s/<\/note>/<\/note>\n/g' | sed -e '/^<note>.*<\/note>$/d' | tr '\n' ' ' |
        sed -e 's/<verse eID[^>]*>/\n/g; s/<chapter[^>]*>/\n/g; s/<title[^>]*>[^<]*<\/title>/\n/g; s/<div [^>]*type="x-p"[^>]*>/\n/g' \
            -e 's/<[^>]*>//g'
}

gcide() {
    gzip -dc <usr/share/dictd/gcide.dict.dz | grep -v '^ *\[[0-9]* Webster.*\]$'
}

handbook() {
    cat usr/share/doc/debian-handbook/html/en-US/*.html | tr '\n\t' '  ' |
        sed -e 's/<head>/\n&/g; s/<ul class="docnav/\n&/g; s/<\/\(head\|ul\|div\|p\|li\|h[1-6]\|pre\)>/&\n/g' |
        sed -e '/^<head>/d; /^<ul class="docnav/d; s/<[^>]*>//g'
}

# Macros at the start of a line go, their arguments stay.
man() {
    find usr/share/man -name '*.gz' -type f | sort | xargs gzip -dc |
        sed -e '/^[.'\''] *\\"/d' -e '/^\.\(TH\|nf\|fi\|in\|ie\|el\|if\|de\|so\|sp\|ad\|na\|nh\|hy\|EX\|EE\|TS\|TE\)/d' \
            -e 's/^\.SH *\(.*\)/\n\1/' -e 's/^\.\(PP\|TP\|IP\|RS\|RE\|P\|LP\).*//' -e 's/^\.[A-Z]* *//' \
            -e 's/\\f[A-Z(][A-Z]*//g; s/\\(bu/*/g; s/\\(aq/'\''/g; s/\\[&|^]//g; s/\\-/-/g; s/\\e/\\/g; s/\\\([^a-z]\)/\1/g'
}

# Plain ASCII, no runs of spaces or of empty lines.
for each in $sources; do
    "$each" >part
    sed -e 's/\xe2\x80[\x98\x99]/'\''/g; s/\xe2\x80[\x9c\x9d]/"/g; s/\xe2\x80[\x93\x94]/ - /g; s/\xc2\xa0/ /g' \
        -e 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' -e 's/[^ -~]//g; s/  */ /g; s/^ //; s/ $//' part |
        cat -s >"$each.txt"
done
[ ! -f gcide.txt ] || { awk 'int(NR / 240) % 2 == 0' gcide.txt >half && mv half gcide.txt; }

# Parts of 240 lines, ordered by their position within their source.
for each in $sources; do
    awk -v lines="$(wc -l <"$each.txt")" -v each="$each" 'NR % 240 == 1 {
        if (part != "") close(part)
        part = sprintf("part-%.6f-%s", NR / lines, each)
    } { print > part }' "$each.txt"
done
wc -c ./*.txt
printf '%s\n' part-* | sort | xargs cat >text.part
mv text.part "$out.part" && sync "$out.part" && mv "$out.part" "$out"
echo "$out: $(wc -c <"$out") bytes, sha256 $(sha256sum "$out" | cut -d' ' -f1)"
