// SPDX-License-Identifier: Apache-2.0
//! Functions that only pass an allocation on: the function that called them is the one that wants the memory.

use crate::frame::Frame;

/// Their names, without arguments: functions of the C++ library, and functions that servers have around malloc.
const NAMES: &[&str] = &[
    // glibc's malloc, below the functions that a program calls: seen with Massif's --pages-as-heap=yes
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "_mid_memalign",
    "_int_malloc",
    "_int_memalign",
    "_int_realloc",
    "malloc_hook_ini",
    "realloc_hook_ini",
    "ptmalloc_init",
    "tcache_init",
    "sysmalloc",
    "sysmalloc_mmap",
    "sysmalloc_mmap_fallback",
    "mremap_chunk",
    "__default_morecore",
    "__glibc_morecore",
    "brk",
    "__brk",
    "sbrk",
    "__sbrk",
    "mmap64",
    "__mmap",
    "__mmap64",
    "__mremap",
    // C and C++
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "mmap",
    "mremap",
    "strdup",
    "strndup",
    "__strdup",
    "__strndup",
    "asprintf",
    "vasprintf",
    "__vasprintf_internal",
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
    "aligned_malloc",
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
    // performance schema: storage/perfschema/pfs_global.cc
    "pfs_malloc",
    "pfs_malloc_array",
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
    "allocate_large",
    "allocate_large_dontdump",
    // PostgreSQL: utils/mmgr/mcxt.c, aset.c
    "palloc",
    "palloc0",
    "repalloc",
    "MemoryContextAlloc",
    "MemoryContextAllocZero",
    "pstrdup",
    "pnstrdup",
    "psprintf",
    // OpenSSL: crypto/mem.c, o_str.c
    "CRYPTO_malloc",
    "CRYPTO_zalloc",
    "CRYPTO_realloc",
    "CRYPTO_strdup",
    "CRYPTO_strndup",
    "CRYPTO_memdup",
];
/// Beginnings of names that many such functions share: `AllocSetAlloc`, `AllocSetAllocLarge`, and so on.
const BEGINNINGS: &[&str] = &[
    "AllocSet",
    "GenerationAlloc",
    "SlabAlloc",
    "BumpAlloc",
    "MemoryContextAlloc",
    "palloc_",
    "pg_malloc",
    "ut_allocator<",
    "ut::",
    // the C++ library: containers and strings keep what their callers put into them
    "std::",
    "__gnu_cxx::",
    // allocators that are linked into the program
    "je_",
    "prof_backtrace",
    "prof_alloc_prep",
    "tcmalloc::",
    // not `tc_`: MariaDB's table cache is `tc_init`, `tc_acquire_table`
    "tc_malloc",
    "tc_calloc",
    "tc_realloc",
    "tc_memalign",
    "tc_posix_memalign",
    "tc_valloc",
    "tc_pvalloc",
    "tc_new",
];
/// Where functions are defined that containers and allocators consist of. A debugger's name of an inlined function has no `std::` and no class: the file tells
/// it. Of the C++ library, beside its files `stl_*` and those without an ending, such as `vector`; and of the servers.
const FILES: &[&str] = &[
    "new_allocator.h",
    "alloc_traits.h",
    "allocator.h",
    "allocated_ptr.h",
    "memory_resource.h",
    "basic_string.h",
    "basic_string.tcc",
    "vector.tcc",
    "list.tcc",
    "deque.tcc",
    "forward_list.h",
    "forward_list.tcc",
    "hashtable.h",
    "hashtable_policy.h",
    "unordered_map.h",
    "unordered_set.h",
    "node_handle.h",
    "shared_ptr.h",
    "shared_ptr_base.h",
    "unique_ptr.h",
    "std_function.h",
    "invoke.h",
    // MySQL and MariaDB
    "ut0new.h",
    "aligned.h",
    "aligned_alloc.h",
    "large_page_alloc.h",
    "malloc_allocator.h",
    "memroot_allocator.h",
    "mem_root_allocator.h",
    "mem_root_array.h",
    "mem_root_deque.h",
    "prealloced_array.h",
    "mem0mem.h",
    "mem0mem.inl",
    "my_alloc.h",
    "sql_alloc.h",
];
/// Libraries whose functions all belong to the allocator, or to a profiler that replaces it.
const LIBRARIES: [&str; 6] =
    ["libjemalloc", "libtcmalloc", "libmimalloc", "libheaptrack_", "vgpreload_", "libtbbmalloc"];

/// Whether a function only passes allocations on. A function without a symbol counts as one, because only its caller has a name.
pub(crate) fn is_wrapper(frame: &Frame) -> bool {
    let name = without_type(frame.name());
    let place = frame.place.as_deref().unwrap_or_default();
    name == "???"
        || NAMES.contains(&without_suffix(name))
        || name.ends_with("::operator new")
        || name.ends_with("::operator new[]")
        || BEGINNINGS.iter().any(|it| name.starts_with(it))
        || place.strip_prefix("in ").map_or_else(|| is_in_file(place), is_in_library)
}

/// `place`: `file.h:12`.
fn is_in_file(place: &str) -> bool {
    let Some((path, _)) = place.rsplit_once(':') else { return false };
    let file = last_part(path);
    FILES.contains(&file) || file.starts_with("stl_") || !file.contains('.')
}

fn is_in_library(path: &str) -> bool {
    LIBRARIES.iter().any(|library| last_part(path).starts_with(library))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `sysmalloc` of `sysmalloc.part.0`, which the compiler made; `mmap` of `mmap@@GLIBC_2.2.5`.
fn without_suffix(name: &str) -> &str {
    name.split(['.', '@']).next().unwrap_or(name)
}

/// A name without the type of the result, which the symbols of function templates have: `void std::vector<A>::f<B>`.
fn without_type(name: &str) -> &str {
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, character) in name.char_indices() {
        match character {
            '<' | '(' => depth += 1,
            '>' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && !name.split_at(at).0.ends_with("operator") => begin = at + 1,
            _ => {}
        }
    }
    name.split_at(begin).1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wraps(function: &str, place: &str) -> bool {
        is_wrapper(&Frame { function: function.to_owned(), place: (!place.is_empty()).then(|| place.to_owned()) })
    }

    /// As Valgrind 3.19 writes them: glibc 2.36, libstdc++ 12, MariaDB 11.4.
    #[test]
    fn what_only_passes_on() {
        for (function, place) in [
            ("__mmap64", "mmap64.c:58"),
            ("sysmalloc_mmap.constprop.0", "malloc.c:2435"),
            ("sysmalloc_mmap_fallback.constprop.0", "malloc.c:2520"),
            ("sysmalloc", "malloc.c:2588"),
            ("tcache_init.part.0", "malloc.c:3238"),
            ("_mid_memalign.constprop.0", "malloc.c:3557"),
            ("mmap@@GLIBC_2.2.5", "in /lib/libc.so.6"),
            ("allocate", "new_allocator.h:137"),
            ("_M_get_node", "stl_tree.h:561"),
            ("emplace_back<int>", "vector.tcc:117"),
            ("thread<void (tpool::thread_pool_generic::*)()>", "thread:135"),
            ("allocate_large", "ut0new.h:631"),
            ("aligned_malloc", "aligned.h:26"),
            ("std::__cxx11::basic_string<char, std::char_traits<char> >::_M_construct(unsigned long, char)", ""),
            ("void std::vector<int (*)(A, B)>::_M_realloc_insert<int>(int, int&&)", "in /usr/bin/a"),
            ("std::_Rb_tree_node<A>* std::_Rb_tree<A, std::less<A> >::_M_copy<false>(A*)", ""),
            ("ilink::operator new(unsigned long)", "sql_list.h:679"),
            ("operator new[](unsigned long)", ""),
            ("pfs_malloc(PFS_builtin_memory_class*, unsigned long, int)", ""),
            ("calloc", "in /usr/lib/libjemalloc.so.2"),
        ] {
            assert!(wraps(function, place), "{function} ({place})");
        }
    }

    #[test]
    fn who_wants_the_memory() {
        for (function, place) in [
            ("Log_event_leak", "pg.c:6"),
            ("Leaky_cache_fill(int)", "v.cpp:6"),
            ("operator()", "a.cpp:14"),
            ("mmap_region_of_mine", "a.c:1"),
            ("A::f(std::vector<int, std::allocator<int> > const&)", "in /usr/sbin/mysqld"),
            ("void f<std::string>(std::string)", "in /usr/sbin/mysqld"),
            ("alloc_new_heap", "arena.c:518"),
            ("allocate_stack", "allocatestack.c:366"),
            ("create", "buf0buf.cc:1082"),
        ] {
            assert!(!wraps(function, place), "{function} ({place})");
        }
    }
}
