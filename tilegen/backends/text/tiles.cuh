// Tiles that are dealt to blocks; tiles.cl has the same for OpenCL. lowering/threads/dealing.py says why each is computed once.

// Tiles along a line, dealt to blocks: down a group of rows, then down the next column of them, then the next group.
// The last group has the rows that are left. Matrices stand one behind another.
struct Tiles {
    int matrices, rows, columns, group;
};

// How many there are.
__device__ __forceinline__ int count_tiles(Tiles all)
{
    return all.matrices * all.rows * all.columns;
}

// The matrix of a tile, by its place on the line.
__device__ __forceinline__ int matrix_of_tile(Tiles all, int tile)
{
    return tile / (all.rows * all.columns);
}

// Its row in the matrix.
__device__ __forceinline__ int row_of_tile(Tiles all, int tile)
{
    const int place = tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return above + (place - above * all.columns) % min(group, all.rows - above);
}

// Its column in the matrix.
__device__ __forceinline__ int column_of_tile(Tiles all, int tile)
{
    const int place = tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return (place - above * all.columns) / min(group, all.rows - above);
}
