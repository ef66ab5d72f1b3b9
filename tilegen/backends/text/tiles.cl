// Tiles that are dealt to blocks, as tiles.cuh has them.

// Tiles in the order in which blocks take them: down the rows of a group, then down its next column, then the next
// group. The last group has the remaining rows. Matrices follow one another.
struct Tiles {
    int matrices, rows, columns, group;
};
typedef struct Tiles Tiles;

// The number of tiles.
inline int count_tiles(Tiles all)
{
    return all.matrices * all.rows * all.columns;
}

// The matrix of a tile, by its number in this order.
inline int matrix_of_tile(Tiles all, int tile)
{
    return tile / (all.rows * all.columns);
}

// Its row in the matrix.
inline int row_of_tile(Tiles all, int tile)
{
    const int place = all.matrices == 1 ? tile : tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return above + (place - above * all.columns) % min(group, all.rows - above);
}

// Its column in the matrix.
inline int column_of_tile(Tiles all, int tile)
{
    const int place = all.matrices == 1 ? tile : tile % (all.rows * all.columns);
    const int group = min(all.group, all.rows);
    const int above = place / (group * all.columns) * group;
    return (place - above * all.columns) / min(group, all.rows - above);
}
