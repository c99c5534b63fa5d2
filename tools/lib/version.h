/* The version; configure passes PACKAGE_VERSION to the compiler. */
#ifndef PIPETRAIN_VERSION_H
#define PIPETRAIN_VERSION_H

#define PIPETRAIN_VERSION PACKAGE_VERSION

#endif
