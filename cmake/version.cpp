// SPDX-License-Identifier: Apache-2.0
// Gives the shared library a source of its own: everything else in it comes from the layers.
// A linked program can ask which build it got. No state, any thread.
namespace swiftkv {

const char* LibraryVersion();

const char* LibraryVersion() { return SWIFTKV_VERSION; }

}  // namespace swiftkv
