dnl MPI libraries, for runs of several processes: a module is compiled against each one that is found (sync/ranks). Their
dnl compiler wrappers are all that is needed, and none of them is required.

dnl PT_MPI_LIBRARY(NAME, VARIABLE, OPTION, MACRO OF ITS mpi.h, VARIABLE OF ITS WRAPPER'S COMPILER, DEBIAN PACKAGE)
AC_DEFUN([PT_MPI_LIBRARY], [
  AC_ARG_WITH([$3],
    [AS_HELP_STRING([--with-$3=MPICC], [$1 by this compiler wrapper, for runs that mpirun or srun start as several processes])
AS_HELP_STRING([--with-$3=auto], [the default: used when mpicc.$3 or mpicc compiles for it])
AS_HELP_STRING([--without-$3], [no $1])],
    [], [with_$3=auto])
  $3_found=no $2_MPICC=
  AS_CASE([$with_$3],
    [no], [pt_mpi_wrappers=],
    [auto | yes], [pt_mpi_wrappers="mpicc.$3 mpicc"],
    [pt_mpi_wrappers=$with_$3])
  AS_IF([test -n "$pt_mpi_wrappers"], [
    AC_MSG_CHECKING([for $1])
    pt_saved_cc=$CC pt_saved_cflags=$CFLAGS
    $5=$CC; export $5
    CFLAGS="$CFLAGS -fPIC -shared"
    for CC in $pt_mpi_wrappers; do
      AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <mpi.h>
#if !defined $4 || MPI_VERSION < 3
#error another library, or too old
#endif
int start(void);
int start(void) { return MPI_Init(0, 0); }]])],
        [$3_found=$CC; break])
    done
    CC=$pt_saved_cc CFLAGS=$pt_saved_cflags
    unset $5
    AC_MSG_RESULT([$$3_found])
    AS_CASE([$with_$3-$$3_found],
      [auto-*], [],
      [*-no], [AC_MSG_ERROR([--with-$3=$with_$3: $1 with MPI 3 is not there; Debian has it in $6])])
  ])
  AS_IF([test "$$3_found" != no], [$2_MPICC=$$3_found])
  AC_SUBST([$2_MPICC])
  AC_SUBST([with_$3])
  AM_CONDITIONAL([HAVE_$2], [test "$$3_found" != no])
])

AC_DEFUN([PT_MPI], [
  PT_MPI_LIBRARY([Open MPI], [OPENMPI], [openmpi], [OPEN_MPI], [OMPI_CC], [libopenmpi-dev])
  PT_MPI_LIBRARY([MPICH], [MPICH], [mpich], [MPICH_VERSION], [MPICH_CC], [libmpich-dev])
])
