dnl Compiler and linker flags: every one is tried first.

dnl PT_TRY_FLAGS(VARIABLE, FLAGS): append those of FLAGS that compiler and linker take without a warning.
AC_DEFUN([PT_TRY_FLAGS], [
  for pt_flag in $2; do
    AC_MSG_CHECKING([whether $CC takes $pt_flag])
    pt_saved_cflags=$CFLAGS
    CFLAGS="$CFLAGS -Werror $pt_flag"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdlib.h>]], [])],
      [AC_MSG_RESULT([yes]); $1="$$1 $pt_flag"],
      [AC_MSG_RESULT([no])])
    CFLAGS=$pt_saved_cflags
  done
])

AC_DEFUN([PT_C11], [
  AC_MSG_CHECKING([for C11 with its atomics])
  pt_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -std=c11 -pthread"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdatomic.h>]],
      [[_Static_assert(1, ""); atomic_int a = 0; return atomic_fetch_add(&a, 1);]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no]); AC_MSG_ERROR([$CC does not compile C11])])
  CFLAGS=$pt_saved_cflags
  AC_SUBST([LANGUAGE_CFLAGS], ["-std=c11 -pthread"])
])

dnl PT_VECTORS: vectors as clang and gcc 12 have them. gcc 11 lacks only __builtin_shufflevector, in onednn_store.c: with
dnl its own __builtin_shuffle there, gcc 11.3 computes what gcc 12 does, but no test of ours runs with it.
AC_DEFUN([PT_VECTORS], [
  AC_MSG_CHECKING([for vectors that are converted and shuffled])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[typedef float four __attribute__((vector_size(16)));
      typedef int four_ints __attribute__((vector_size(16)));]],
      [[four a = { 1, 2, 3, 4 }; a = __builtin_shufflevector(a, a, 0, 4, 1, 5);
        four_ints b = __builtin_convertvector(a, four_ints); return b[0];]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC has no __builtin_shufflevector: gcc 12 or newer, or clang, is needed (CC=clang)])])
])

AC_DEFUN([PT_WARNINGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat warnings as errors])], [], [enable_werror=no])
  WARNING_CFLAGS=
  PT_TRY_FLAGS([WARNING_CFLAGS], [-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wformat=2])
  AS_IF([test "$enable_werror" = yes], [WARNING_CFLAGS="$WARNING_CFLAGS -Werror"])
  AC_SUBST([WARNING_CFLAGS])
])

AC_DEFUN([PT_SANITIZER], [
  AC_ARG_WITH([sanitizer],
    [AS_HELP_STRING([--with-sanitizer=LIST], [build with the compiler's sanitizers: address,undefined or thread])],
    [], [with_sanitizer=no])
  SANITIZER_CFLAGS=
  AS_IF([test "$with_sanitizer" = yes], [AC_MSG_ERROR([--with-sanitizer needs a list, e.g. address,undefined])])
  AS_IF([test "$with_sanitizer" != no], [
    SANITIZER_CFLAGS="-fsanitize=$with_sanitizer -fno-sanitize-recover=all -fno-omit-frame-pointer"
    pt_saved_cflags=$CFLAGS
    CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [],
      [AC_MSG_ERROR([$CC cannot build with -fsanitize=$with_sanitizer])])
    CFLAGS=$pt_saved_cflags
  ])
  AC_SUBST([SANITIZER_CFLAGS])
  AC_SUBST([SANITIZER], [$with_sanitizer])
  dnl libgomp is not built for the thread sanitizer, which then reports its barriers as races.
  AS_CASE([$with_sanitizer], [*thread*], [enable_openmp=no])
])

dnl PT_OBJECTS: the same objects are for programs and for libpipetrain-feed. Hidden functions are called directly, as in a
dnl position independent program, and the library's link leaves out the functions that it does not need.
AC_DEFUN([PT_OBJECTS], [
  OBJECT_CFLAGS=
  PT_TRY_FLAGS([OBJECT_CFLAGS], [-fPIC -fvisibility=hidden -ffunction-sections])
  AC_SUBST([OBJECT_CFLAGS])
])

dnl Nothing writable after start, no executable stack, checked stack frames and copies. Sanitizers bring their own
dnl checks of copies.
AC_DEFUN([PT_HARDENING], [
  HARDENING_CFLAGS= HARDENING_LDFLAGS=
  PT_TRY_FLAGS([HARDENING_CFLAGS], [-fstack-protector-strong])
  PT_TRY_FLAGS([HARDENING_LDFLAGS], [-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack])
  AS_IF([test "$with_sanitizer" = no],
    [PT_TRY_FLAGS([HARDENING_CFLAGS], ["-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])])
  AC_SUBST([HARDENING_CFLAGS])
  AC_SUBST([HARDENING_LDFLAGS])
])
