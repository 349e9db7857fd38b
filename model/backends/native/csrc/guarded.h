// What Python calls. Zero, or a pointer, is success; memory is the one thing that can run out.
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
    }
}

}  // namespace regard
