/* Random numbers as Windows 10 has them, for wine 8, which lacks this library (bcryptprimitives). */

#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    const ULONG most = 1 << 30;
    while (length > 0) {
        ULONG count = length < most ? (ULONG)length : most;
        if (!SystemFunction036(bytes, count)) {
            return FALSE;
        }
        bytes += count;
        length -= count;
    }
    return TRUE;
}
