dnl Libraries: found one by one, missing ones reported together with their Debian packages.

dnl PT_MISSING(PACKAGE)
AC_DEFUN([PT_MISSING], [pt_missing="$pt_missing $1"])

dnl PT_LIBRARY(VARIABLE, PKG-CONFIG NAME, DEBIAN PACKAGE)
AC_DEFUN([PT_LIBRARY], [PKG_CHECK_MODULES([$1], [$2], [], [PT_MISSING([$3])])])

dnl oneDNN has no pkg-config file everywhere: header and library are looked for, in DIR when one is given.
AC_DEFUN([PT_ONEDNN], [
  AC_ARG_WITH([onednn],
    [AS_HELP_STRING([--with-onednn=DIR], [oneDNN 2.6 or 3.x in DIR/include and DIR/lib])
AS_HELP_STRING([--without-onednn], [only the slow reference backend])],
    [], [with_onednn=yes])
  ONEDNN_CPPFLAGS= ONEDNN_LIBS= onednn_found=no
  AS_CASE([$with_onednn],
    [no], [],
    [yes], [ONEDNN_LIBS="-ldnnl"],
    [AS_IF([test ! -f "$with_onednn/include/oneapi/dnnl/dnnl.h"],
       [AC_MSG_ERROR([there is no oneDNN in $with_onednn: include/oneapi/dnnl/dnnl.h is missing])])
     with_onednn=$(cd "$with_onednn" && pwd)
     ONEDNN_CPPFLAGS="-I$with_onednn/include"
     ONEDNN_LIBS="-L$with_onednn/lib -Wl,-rpath,$with_onednn/lib -ldnnl"])
  AS_IF([test "$with_onednn" != no], [
    AC_MSG_CHECKING([for oneDNN])
    pt_saved_cppflags=$CPPFLAGS pt_saved_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $ONEDNN_CPPFLAGS" LIBS="$ONEDNN_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <oneapi/dnnl/dnnl.h>]], [[
#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error too old
#endif
return dnnl_version()->major;]])],
      [onednn_found=yes], [PT_MISSING([libdnnl-dev])])
    AS_IF([test $onednn_found = yes], [
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <oneapi/dnnl/dnnl.h>]], [[
#if DNNL_CPU_RUNTIME != DNNL_RUNTIME_OMP && DNNL_CPU_RUNTIME != DNNL_RUNTIME_SEQ
#error not for OpenMP
#endif
]])],
        [], [onednn_found="made for other threads than OpenMP's"])])
    CPPFLAGS=$pt_saved_cppflags LIBS=$pt_saved_libs
    AC_MSG_RESULT([$onednn_found])
    AS_CASE([$onednn_found], [made*],
      [AC_MSG_ERROR([this oneDNN computes with other threads than OpenMP's, so a tower's threads would not be its own;
    name one that was built with OpenMP: --with-onednn=DIR])])
  ])
  AC_SUBST([with_onednn])
  AC_SUBST([ONEDNN_CPPFLAGS])
  AC_SUBST([ONEDNN_LIBS])
  AM_CONDITIONAL([HAVE_ONEDNN], [test "$onednn_found" = yes])
])

AC_DEFUN([PT_REPORT_MISSING], [
  AS_IF([test -n "$pt_missing"], [
    AS_CASE([$pt_missing],
      [*libdnnl-dev*], [AC_MSG_NOTICE([oneDNN 2.6 or newer is missing; --without-onednn builds a program that trains slowly])])
    AC_MSG_ERROR([these Debian packages are missing:$pt_missing
    install them with: ./bootstrap --install])
  ])
])
