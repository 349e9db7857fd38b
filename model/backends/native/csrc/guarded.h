// Runs the body of a function that Python calls, and returns the status for Python: 0, or -1 if
// memory could not be allocated, or -2 for every other exception.
#pragma once

#include <new>

namespace regard {

template <class Work>
int guarded(Work work) {
    try {
        work();
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    } catch (...) {
        return -2;
    }
}

}  // namespace regard
