# make install, make wheel, make deb. The Makefile of the repository includes this file.

PACKAGE := runtime/package
LIBDIR ?= $(PREFIX)/lib
# Time of files in packages: that of the commit.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)
# make install KERNELS= for a package: compiled kernels only fit the machine that compiled them.
KERNELS ?= yes

# Files with @NAMES@: pkg-config and CMake. filled FILE: the commands that print the file.
LIBRARY_LIBS = $(filter-out -Wl%,$(LIBS)) $(if $(HAVE_OPENMP),-fopenmp)
filled = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@MINOR@|$(basename $(VERSION))|g' \
    -e 's|@SONAME@|$(SONAME)|g' -e 's|@LIBS@|$(LIBRARY_LIBS)|g' $(PACKAGE)/$(1)

# Man pages and completion scripts, as the command prints them.
PAGES := $(BUILD)/pages
$(PAGES): $(BUILD)/moec
	@rm -rf $@ && mkdir -p $@
	@set -e; $< reference man >$@/moec.1; \
	for command in $$($< help | sed -n 's/^  [A-Z][a-z]*: *//p'); do $< reference man $$command >$@/moec-$$command.1; done; \
	for shell in bash zsh fish; do $< completion $$shell >$@/$$shell; done

.PHONY: install
install: all $(BUILD)/libmoec.a $(PAGES)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/moec $(DESTDIR)$(PREFIX)/include/moec
	install $(BUILD)/moec $(DESTDIR)$(PREFIX)/bin/moec
	$(if $(KERNELS),-$(BUILD)/moec precompile $(DESTDIR)$(PREFIX)/lib/moec)
	install -m 644 $(BUILD)/libmoec.a $(BUILD)/libmoec_compiler.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/libmoec.so $(DESTDIR)$(LIBDIR)/libmoec.so.$(VERSION)
	ln -sf libmoec.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libmoec.so
	for name in moec moec-compiler; do \
	    $(call filled,$$name.pc.in) >$(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc || exit 1; \
	done
	for name in moec-config moec-config-version; do \
	    $(call filled,$$name.cmake.in) >$(DESTDIR)$(LIBDIR)/cmake/moec/$$name.cmake || exit 1; \
	done
	install -m 644 runtime/library/moec.h $(DESTDIR)$(PREFIX)/include/moec.h
	install -m 644 compiler/moec.h $(DESTDIR)$(PREFIX)/include/moec/compiler.h
	install -m 644 runtime/library/moec_against.h $(DESTDIR)$(PREFIX)/include/moec/against.h
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -d $(DESTDIR)$(PREFIX)/share/zsh/$(ZSH_FUNCTIONS) $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 644 $(PAGES)/*.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 $(PAGES)/bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/moec
	install -m 644 $(PAGES)/zsh $(DESTDIR)$(PREFIX)/share/zsh/$(ZSH_FUNCTIONS)/_moec
	install -m 644 $(PAGES)/fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/moec.fish
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true
	@echo "installed in $(DESTDIR)$(PREFIX)"
ZSH_FUNCTIONS ?= site-functions

# The command and the library, linked again: they find their shared libraries in the folder of the wheel. They do not use oneDNN,
# because its absence would be a note at each start.
WHEEL := $(BUILD)/package/moec
WHEEL_OBJECTS := $(BUILD)/kit-objects/runtime/device/products.o $(BUILD)/commit.o $(BUILD)/libruntime.a $(BUILD)/libmoec_compiler.a
WHEEL_LINK = $(CC) $(CFLAGS) $(if $(HAVE_OPENMP),-fopenmp) $(LDFLAGS) -s -Wl,-z,defs -o $@
$(WHEEL)/bin/moec: $(BUILD)/runtime/tools/command/main.o $(WHEEL_OBJECTS)
	@mkdir -p $(@D)
	$(WHEEL_LINK) -Wl,-rpath,'$$ORIGIN/../lib' $^ $(LIBS)
$(WHEEL)/lib/libmoec.so: $(filter $(BUILD)/runtime/library/%,$(RUNTIME_OBJECTS)) $(WHEEL_OBJECTS) runtime/library/exported.map
	@mkdir -p $(@D)
	$(WHEEL_LINK) -Wl,-rpath,'$$ORIGIN' -shared -Wl,--version-script=runtime/library/exported.map -Wl,-soname,$(SONAME) \
	    -Wl,--start-group $(filter-out %.map,$^) -Wl,--end-group $(LIBS)
.PHONY: wheel
wheel: $(WHEEL)/bin/moec $(WHEEL)/lib/libmoec.so
	@SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) python3 $(PACKAGE)/wheel.py $(VERSION) $(BUILD)

# A copy of the sources is built by dpkg-buildpackage.
DEB := $(BUILD)/package/moec-$(VERSION)
DEB_FILES := control copyright rules
.PHONY: deb
deb:
	@for tool in dpkg-buildpackage dh; do command -v $$tool >/dev/null || \
	    { echo "make deb needs $$tool (packages build-essential and debhelper)"; exit 1; }; done
	@rm -rf $(DEB) $(BUILD)/*.deb
	@mkdir -p $(DEB)/debian
	@{ git ls-files --cached --others --exclude-standard 2>/dev/null || find Makefile LICENSE README.md compiler runtime stdlib models generated tests examples -type f; } | \
	    tar -cf - -T - | tar -xf - -C $(DEB)
	@for name in $(DEB_FILES); do $(call filled,debian/$$name) >$(DEB)/debian/$$name || exit 1; done
	@chmod +x $(DEB)/debian/rules
	@printf 'moec ($(VERSION)) unstable; urgency=medium\n\n  * Version $(VERSION).\n\n -- %s  %s\n' \
	    "$$(sed -n 's/^Maintainer: //p' $(DEB)/debian/control)" "$$(LC_ALL=C date -u -R -d @$(SOURCE_DATE_EPOCH))" >$(DEB)/debian/changelog
	cd $(DEB) && env -u MAKEFLAGS -u MFLAGS COMMIT=$(COMMIT) DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage --build=binary --no-sign --jobs=auto
	@mv $(BUILD)/package/*.deb $(BUILD)
	@rm -rf $(DEB) $(BUILD)/package/moec_*
	@ls -l $(BUILD)/*.deb

# Container images; DOCKER="buildah bud" also works.
DOCKER ?= docker build
IMAGE_ARGUMENTS = --build-arg COMMIT=$(COMMIT) --build-arg SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)
.PHONY: image image-cuda
image:
	$(DOCKER) --file $(PACKAGE)/Dockerfile --tag moec $(IMAGE_ARGUMENTS) .
image-cuda:
	$(DOCKER) --file $(PACKAGE)/Dockerfile.cuda --tag moec-cuda $(IMAGE_ARGUMENTS) .
