// SPDX-License-Identifier: Apache-2.0
//! Functions that only pass an allocation on: the function that called them is the one that wants the memory.

use crate::frame::Frame;

/// Their names, without arguments: functions of the C++ library, and functions that servers have around malloc.
const NAMES: [&str; 74] = [
    // C and C++
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "mmap",
    "mremap",
    "strdup",
    "strndup",
    "__strdup",
    "vasprintf",
    "operator new",
    "operator new[]",
    // MySQL and MariaDB: mysys/my_malloc.c, my_alloc.c, array.c, hash.c, my_largepage.c, sql/sql_alloc.h, sql/thr_malloc.cc
    "my_malloc",
    "my_realloc",
    "my_raw_malloc",
    "my_strdup",
    "my_strndup",
    "my_memdup",
    "my_multi_malloc",
    "my_multi_malloc_large",
    "my_large_malloc",
    "my_once_alloc",
    "my_once_memdup",
    "my_once_strdup",
    "my_large_virtual_alloc",
    "my_malloc_aligned",
    "sf_malloc",
    "sf_realloc",
    "root_alloc",
    "alloc_root",
    "alloc_dynamic",
    "allocate_dynamic",
    "insert_dynamic",
    "init_dynamic_array2",
    "my_init_dynamic_array",
    "my_hash_init2",
    "_my_hash_init",
    "my_hash_insert",
    "reset_root_defaults",
    "multi_alloc_root",
    "strdup_root",
    "strmake_root",
    "memdup_root",
    "init_alloc_root",
    "init_sql_alloc",
    "sql_alloc",
    "MEM_ROOT::Alloc",
    "MEM_ROOT::AllocSlow",
    "MEM_ROOT::AllocBlock",
    "MEM_ROOT::ForceNewBlock",
    "thd_alloc",
    "THD::alloc",
    "Query_arena::alloc",
    "Sql_alloc::operator new",
    // InnoDB: mem/mem0mem.cc, include/ut0new.h, ut/ut0mem.cc
    "mem_area_alloc",
    "mem_heap_create_block",
    "mem_heap_create_block_func",
    "mem_heap_add_block",
    "mem_heap_alloc",
    "mem_heap_zalloc",
    "mem_heap_create_func",
    "ut_malloc_low",
    "ut_zalloc_nokey",
    "ut_allocator::allocate",
    "ut_allocator::allocate_large",
    // PostgreSQL: utils/mmgr/mcxt.c, aset.c
    "palloc",
    "palloc0",
    "repalloc",
    "MemoryContextAlloc",
    "MemoryContextAllocZero",
    "pstrdup",
];
/// Beginnings of names that many such functions share: `AllocSetAlloc`, `AllocSetAllocLarge`, and so on.
const BEGINNINGS: [&str; 17] = [
    "AllocSet",
    "GenerationAlloc",
    "SlabAlloc",
    "BumpAlloc",
    "MemoryContextAlloc",
    "palloc_",
    "pg_malloc",
    "ut_allocator<",
    "ut::",
    "std::allocator",
    "__gnu_cxx::new_allocator",
    "std::__new_allocator",
    // allocators that are linked into the program
    "je_",
    "prof_backtrace",
    "prof_alloc_prep",
    "tcmalloc::",
    "tc_",
];
/// Libraries whose functions all belong to the allocator, or to a profiler that replaces it.
const LIBRARIES: [&str; 6] =
    ["libjemalloc", "libtcmalloc", "libmimalloc", "libheaptrack_", "vgpreload_", "libtbbmalloc"];

/// Whether a function only passes allocations on. A function without a symbol counts as one, because only its caller has a name.
pub(crate) fn is_wrapper(frame: &Frame) -> bool {
    let name = frame.name();
    let library = frame.place.as_deref().and_then(|it| it.strip_prefix("in ")).and_then(|it| it.rsplit('/').next());
    let is_allocator = || library.is_some_and(|it| LIBRARIES.iter().any(|library| it.starts_with(library)));
    name == "???" || NAMES.contains(&name) || BEGINNINGS.iter().any(|it| name.starts_with(it)) || is_allocator()
}
