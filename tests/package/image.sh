#!/bin/sh
# make image and make image-cuda with buildah, as root: on a Debian base that debootstrap makes, instead of images of a registry. The
# first image trains a model; the second one has no C compiler. CUDA libraries are not part of this test.
. "$(dirname "$0")/../begin.sh"
for tool in debootstrap buildah; do command -v $tool >/dev/null || wrong "$tool is missing"; done
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
store="--root $work/store --runroot $work/run"
debootstrap --variant=minbase --include=ca-certificates bookworm "$work/root" >"$work/log" 2>&1 || wrong "$(tail -5 "$work/log")"
cp /etc/resolv.conf "$work/root/etc/"
# shellcheck disable=SC2086 # several words
{
    buildah $store from --name base scratch
    tar -C "$work/root" --exclude='./dev/*' --exclude='./proc/*' -cf "$work/root.tar" .
    buildah $store add base "$work/root.tar" /
    buildah $store commit base localhost/base
} >"$work/log" 2>&1 || wrong "$(tail -5 "$work/log")"
for image in image image-cuda; do
    make $image DOCKER="buildah $store bud --layers --network host --build-arg BASE=localhost/base" >"$work/log" 2>&1 || wrong "$(tail -20 "$work/log")"
done
small_model 5
# shellcheck disable=SC2086
{
    container=$(buildah $store from localhost/moec)
    buildah $store copy "$container" "$work/small.moe" "$work/text" /data/ >/dev/null
    buildah $store run "$container" -- moec train small.moe --data text --out run >"$work/log" 2>&1 || wrong "$(cat "$work/log")"
    container=$(buildah $store from localhost/moec-cuda)
    buildah $store run "$container" -- sh -c 'moec --version && ! command -v cc'
}
