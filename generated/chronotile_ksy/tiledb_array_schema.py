# This is a generated file! Please edit source .ksy file and use kaitai-struct-compiler to rebuild
# type: ignore

import kaitaistruct
from kaitaistruct import KaitaiStruct, KaitaiStream, BytesIO
from chronotile_ksy import tiledb_datatype
from chronotile_ksy import tiledb_filter_pipeline
from enum import IntEnum


if getattr(kaitaistruct, 'API_VERSION', (0, 9)) < (0, 11):
    raise Exception("Incompatible Kaitai Struct Python API: 0.11 or later is required, but you have %s" % (kaitaistruct.__version__))

class TiledbArraySchema(KaitaiStruct):
    """The payload of an array schema file, for format versions 1 to 23.
    
    .. seealso::
       Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
    """

    class ArrayTypes(IntEnum):
        dense = 0
        sparse = 1

    class CurrentDomainTypes(IntEnum):
        nd_rectangle = 0

    class DataOrders(IntEnum):
        unordered_data = 0
        increasing_data = 1
        decreasing_data = 2

    class Layouts(IntEnum):
        row_major = 0
        col_major = 1
        global_order = 2
        unordered = 3
        hilbert = 4
    def __init__(self, _io, _parent=None, _root=None):
        super(TiledbArraySchema, self).__init__(_io)
        self._parent = _parent
        self._root = _root or self
        self._read()

    def _read(self):
        self.version = self._io.read_u4le()
        if not self.version >= 1:
            raise kaitaistruct.ValidationLessThanError(1, self.version, self._io, u"/seq/0")
        if not self.version <= 23:
            raise kaitaistruct.ValidationGreaterThanError(23, self.version, self._io, u"/seq/0")
        if self.version >= 5:
            pass
            self.dups_allowed = self._io.read_u1()
            if not self.dups_allowed <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.dups_allowed, self._io, u"/seq/1")

        self.array_type = KaitaiStream.resolve_enum(TiledbArraySchema.ArrayTypes, self._io.read_u1())
        if not isinstance(self.array_type, TiledbArraySchema.ArrayTypes):
            raise kaitaistruct.ValidationNotInEnumError(self.array_type, self._io, u"/seq/2")
        self.tile_order = KaitaiStream.resolve_enum(TiledbArraySchema.Layouts, self._io.read_u1())
        if not isinstance(self.tile_order, TiledbArraySchema.Layouts):
            raise kaitaistruct.ValidationNotInEnumError(self.tile_order, self._io, u"/seq/3")
        self.cell_order = KaitaiStream.resolve_enum(TiledbArraySchema.Layouts, self._io.read_u1())
        if not isinstance(self.cell_order, TiledbArraySchema.Layouts):
            raise kaitaistruct.ValidationNotInEnumError(self.cell_order, self._io, u"/seq/4")
        self.capacity = self._io.read_u8le()
        self.coords_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
        self.offsets_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
        if self.version >= 7:
            pass
            self.validity_filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)

        self.domain = TiledbArraySchema.ArrayDomain(self.version, self._io, self, self._root)
        self.num_attributes = self._io.read_u4le()
        if not self.num_attributes <= (self._io.size() - self._io.pos()) // 17:
            raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 17, self.num_attributes, self._io, u"/seq/10")
        self.attributes = []
        for i in range(self.num_attributes):
            self.attributes.append(TiledbArraySchema.Attribute(self.version, self._io, self, self._root))

        if self.version >= 18:
            pass
            self.num_labels = self._io.read_u4le()
            if not self.num_labels <= (self._io.size() - self._io.pos()) // 28:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 28, self.num_labels, self._io, u"/seq/12")

        if self.version >= 18:
            pass
            self.labels = []
            for i in range(self.num_labels):
                self.labels.append(TiledbArraySchema.DimensionLabel(self._io, self, self._root))


        if self.version >= 20:
            pass
            self.num_enumerations = self._io.read_u4le()
            if not self.num_enumerations <= (self._io.size() - self._io.pos()) // 8:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 8, self.num_enumerations, self._io, u"/seq/14")

        if self.version >= 20:
            pass
            self.enumerations = []
            for i in range(self.num_enumerations):
                self.enumerations.append(TiledbArraySchema.EnumerationPath(self._io, self, self._root))


        if self.version >= 22:
            pass
            self.current_domain = TiledbArraySchema.CurrentDomain(self._io, self, self._root)

        self.trailing = self._io.read_bytes_full()
        if not self.trailing == b"":
            raise kaitaistruct.ValidationNotEqualError(b"", self.trailing, self._io, u"/seq/17")


    def _fetch_instances(self):
        pass
        if self.version >= 5:
            pass

        self.coords_filters._fetch_instances()
        self.offsets_filters._fetch_instances()
        if self.version >= 7:
            pass
            self.validity_filters._fetch_instances()

        self.domain._fetch_instances()
        for i in range(len(self.attributes)):
            pass
            self.attributes[i]._fetch_instances()

        if self.version >= 18:
            pass

        if self.version >= 18:
            pass
            for i in range(len(self.labels)):
                pass
                self.labels[i]._fetch_instances()


        if self.version >= 20:
            pass

        if self.version >= 20:
            pass
            for i in range(len(self.enumerations)):
                pass
                self.enumerations[i]._fetch_instances()


        if self.version >= 22:
            pass
            self.current_domain._fetch_instances()


    class ArrayDomain(KaitaiStruct):
        """The dimensions. Before version 5 they share one datatype.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#domain
        """
        def __init__(self, version, _io, _parent=None, _root=None):
            super(TiledbArraySchema.ArrayDomain, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self._read()

        def _read(self):
            if self.version < 5:
                pass
                self.datatype = tiledb_datatype.TiledbDatatype(self._io)

            self.num_dimensions = self._io.read_u4le()
            if not self.num_dimensions >= 1:
                raise kaitaistruct.ValidationLessThanError(1, self.num_dimensions, self._io, u"/types/array_domain/seq/1")
            if not self.num_dimensions <= (self._io.size() - self._io.pos()) // 5:
                raise kaitaistruct.ValidationGreaterThanError((self._io.size() - self._io.pos()) // 5, self.num_dimensions, self._io, u"/types/array_domain/seq/1")
            self.dimensions = []
            for i in range(self.num_dimensions):
                self.dimensions.append(TiledbArraySchema.Dimension(self.version, (self.datatype.len_value if self.version < 5 else 0), self._io, self, self._root))



        def _fetch_instances(self):
            pass
            if self.version < 5:
                pass
                self.datatype._fetch_instances()

            for i in range(len(self.dimensions)):
                pass
                self.dimensions[i]._fetch_instances()



    class Attribute(KaitaiStruct):
        """One attribute.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#attribute
        """
        def __init__(self, version, _io, _parent=None, _root=None):
            super(TiledbArraySchema.Attribute, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self._read()

        def _read(self):
            self.len_name = self._io.read_u4le()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/attribute/seq/0")
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self.datatype = tiledb_datatype.TiledbDatatype(self._io)
            self.num_cell_values = self._io.read_u4le()
            self.filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)
            if self.version >= 6:
                pass
                self.len_fill_value = self._io.read_u8le()
                if not self.len_fill_value <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_fill_value, self._io, u"/types/attribute/seq/5")

            if self.version >= 6:
                pass
                self.fill_value = self._io.read_bytes(self.len_fill_value)

            if self.version >= 7:
                pass
                self.nullable = self._io.read_u1()
                if not self.nullable <= 1:
                    raise kaitaistruct.ValidationGreaterThanError(1, self.nullable, self._io, u"/types/attribute/seq/7")

            if self.version >= 7:
                pass
                self.fill_value_validity = self._io.read_u1()

            if self.version >= 17:
                pass
                self.order = KaitaiStream.resolve_enum(TiledbArraySchema.DataOrders, self._io.read_u1())
                if not isinstance(self.order, TiledbArraySchema.DataOrders):
                    raise kaitaistruct.ValidationNotInEnumError(self.order, self._io, u"/types/attribute/seq/9")

            if self.version >= 20:
                pass
                self.len_enumeration_name = self._io.read_u4le()
                if not self.len_enumeration_name <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_enumeration_name, self._io, u"/types/attribute/seq/10")

            if self.version >= 20:
                pass
                self.enumeration_name = (self._io.read_bytes(self.len_enumeration_name)).decode(u"UTF-8")



        def _fetch_instances(self):
            pass
            self.datatype._fetch_instances()
            self.filters._fetch_instances()
            if self.version >= 6:
                pass

            if self.version >= 6:
                pass

            if self.version >= 7:
                pass

            if self.version >= 7:
                pass

            if self.version >= 17:
                pass

            if self.version >= 20:
                pass

            if self.version >= 20:
                pass


        @property
        def is_nullable(self):
            if hasattr(self, '_m_is_nullable'):
                return self._m_is_nullable

            self._m_is_nullable = (self.nullable != 0 if self.version >= 7 else False)
            return getattr(self, '_m_is_nullable', None)


    class CurrentDomain(KaitaiStruct):
        """The part of the domain that is in use, with a version of its own.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#current-domain
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.CurrentDomain, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.version = self._io.read_u4le()
            if not self.version <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.version, self._io, u"/types/current_domain/seq/0")
            self.empty = self._io.read_u1()
            if not self.empty <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.empty, self._io, u"/types/current_domain/seq/1")
            if (not (self.is_empty)):
                pass
                self.domain_type = KaitaiStream.resolve_enum(TiledbArraySchema.CurrentDomainTypes, self._io.read_u1())
                if not isinstance(self.domain_type, TiledbArraySchema.CurrentDomainTypes):
                    raise kaitaistruct.ValidationNotInEnumError(self.domain_type, self._io, u"/types/current_domain/seq/2")

            if (not (self.is_empty)):
                pass
                self.ranges = []
                for i in range(self._root.domain.num_dimensions):
                    self.ranges.append(TiledbArraySchema.DimensionRange(self._root.domain.dimensions[i].len_coordinate, self._io, self, self._root))




        def _fetch_instances(self):
            pass
            if (not (self.is_empty)):
                pass

            if (not (self.is_empty)):
                pass
                for i in range(len(self.ranges)):
                    pass
                    self.ranges[i]._fetch_instances()



        @property
        def is_empty(self):
            if hasattr(self, '_m_is_empty'):
                return self._m_is_empty

            self._m_is_empty = self.empty != 0
            return getattr(self, '_m_is_empty', None)


    class Dimension(KaitaiStruct):
        """One dimension, its domain and its tile extent.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md#dimension
        """
        def __init__(self, version, len_shared_value, _io, _parent=None, _root=None):
            super(TiledbArraySchema.Dimension, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.version = version
            self.len_shared_value = len_shared_value
            self._read()

        def _read(self):
            self.len_name = self._io.read_u4le()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/dimension/seq/0")
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            if self.version >= 5:
                pass
                self.datatype = tiledb_datatype.TiledbDatatype(self._io)

            if self.version >= 5:
                pass
                self.num_cell_values = self._io.read_u4le()

            if self.version >= 5:
                pass
                self.filters = tiledb_filter_pipeline.TiledbFilterPipeline(self._io)

            if self.version >= 5:
                pass
                self.len_domain_field = self._io.read_u8le()
                if not self.len_domain_field <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_domain_field, self._io, u"/types/dimension/seq/5")

            self.domain = self._io.read_bytes(self.len_domain)
            self.null_tile_extent = self._io.read_u1()
            if not self.null_tile_extent <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.null_tile_extent, self._io, u"/types/dimension/seq/7")
            if (not (self.is_null_tile_extent)):
                pass
                self.tile_extent = self._io.read_bytes(self.len_value)



        def _fetch_instances(self):
            pass
            if self.version >= 5:
                pass
                self.datatype._fetch_instances()

            if self.version >= 5:
                pass

            if self.version >= 5:
                pass
                self.filters._fetch_instances()

            if self.version >= 5:
                pass

            if (not (self.is_null_tile_extent)):
                pass


        @property
        def is_null_tile_extent(self):
            if hasattr(self, '_m_is_null_tile_extent'):
                return self._m_is_null_tile_extent

            self._m_is_null_tile_extent = self.null_tile_extent != 0
            return getattr(self, '_m_is_null_tile_extent', None)

        @property
        def len_coordinate(self):
            """Bytes of a coordinate; 0 where they vary in length."""
            if hasattr(self, '_m_len_coordinate'):
                return self._m_len_coordinate

            self._m_len_coordinate = (self.len_value if self.version < 5 else (0 if self.num_cell_values == 4294967295 else self.num_cell_values * self.len_value))
            return getattr(self, '_m_len_coordinate', None)

        @property
        def len_domain(self):
            if hasattr(self, '_m_len_domain'):
                return self._m_len_domain

            self._m_len_domain = (self.len_domain_field if self.version >= 5 else 2 * self.len_shared_value)
            return getattr(self, '_m_len_domain', None)

        @property
        def len_value(self):
            if hasattr(self, '_m_len_value'):
                return self._m_len_value

            self._m_len_value = (self.datatype.len_value if self.version >= 5 else self.len_shared_value)
            return getattr(self, '_m_len_value', None)


    class DimensionLabel(KaitaiStruct):
        """A label on a dimension. The order of the fields is the engine's, which is
        not that of the format's page.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/tiledb/sm/array_schema/dimension_label.cc
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.DimensionLabel, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.dimension_index = self._io.read_u4le()
            self.len_name = self._io.read_u4le()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/dimension_label/seq/1")
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self.relative_uri = self._io.read_u1()
            if not self.relative_uri <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.relative_uri, self._io, u"/types/dimension_label/seq/3")
            self.len_uri = self._io.read_u8le()
            if not self.len_uri <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_uri, self._io, u"/types/dimension_label/seq/4")
            self.uri = (self._io.read_bytes(self.len_uri)).decode(u"UTF-8")
            self.len_attribute_name = self._io.read_u4le()
            if not self.len_attribute_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_attribute_name, self._io, u"/types/dimension_label/seq/6")
            self.attribute_name = (self._io.read_bytes(self.len_attribute_name)).decode(u"UTF-8")
            self.order = KaitaiStream.resolve_enum(TiledbArraySchema.DataOrders, self._io.read_u1())
            if not isinstance(self.order, TiledbArraySchema.DataOrders):
                raise kaitaistruct.ValidationNotInEnumError(self.order, self._io, u"/types/dimension_label/seq/8")
            self.datatype = tiledb_datatype.TiledbDatatype(self._io)
            self.num_cell_values = self._io.read_u4le()
            self.external = self._io.read_u1()
            if not self.external <= 1:
                raise kaitaistruct.ValidationGreaterThanError(1, self.external, self._io, u"/types/dimension_label/seq/11")


        def _fetch_instances(self):
            pass
            self.datatype._fetch_instances()

        @property
        def is_external(self):
            if hasattr(self, '_m_is_external'):
                return self._m_is_external

            self._m_is_external = self.external != 0
            return getattr(self, '_m_is_external', None)

        @property
        def is_relative_uri(self):
            if hasattr(self, '_m_is_relative_uri'):
                return self._m_is_relative_uri

            self._m_is_relative_uri = self.relative_uri != 0
            return getattr(self, '_m_is_relative_uri', None)


    class DimensionRange(KaitaiStruct):
        """The least and the largest coordinate on one dimension.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/fragment.md#mbr
        """
        def __init__(self, len_coordinate, _io, _parent=None, _root=None):
            super(TiledbArraySchema.DimensionRange, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self.len_coordinate = len_coordinate
            self._read()

        def _read(self):
            if self.len_coordinate == 0:
                pass
                self.len_both = self._io.read_u8le()
                if not self.len_both <= self._io.size() - self._io.pos():
                    raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_both, self._io, u"/types/dimension_range/seq/0")

            if self.len_coordinate == 0:
                pass
                self.len_least = self._io.read_u8le()
                if not self.len_least <= self.len_both:
                    raise kaitaistruct.ValidationGreaterThanError(self.len_both, self.len_least, self._io, u"/types/dimension_range/seq/1")

            self.least = self._io.read_bytes((self.len_least if self.len_coordinate == 0 else self.len_coordinate))
            self.largest = self._io.read_bytes((self.len_both - self.len_least if self.len_coordinate == 0 else self.len_coordinate))


        def _fetch_instances(self):
            pass
            if self.len_coordinate == 0:
                pass

            if self.len_coordinate == 0:
                pass



    class EnumerationPath(KaitaiStruct):
        """An enumeration, and the file that holds its labels.
        
        .. seealso::
           Source - https://github.com/TileDB-Inc/TileDB/blob/28aeb653d1c5d3e3b7a4b09b0e9f84a3c4d7605f/format_spec/array_schema.md
        """
        def __init__(self, _io, _parent=None, _root=None):
            super(TiledbArraySchema.EnumerationPath, self).__init__(_io)
            self._parent = _parent
            self._root = _root
            self._read()

        def _read(self):
            self.len_name = self._io.read_u4le()
            if not self.len_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_name, self._io, u"/types/enumeration_path/seq/0")
            self.name = (self._io.read_bytes(self.len_name)).decode(u"UTF-8")
            self.len_file_name = self._io.read_u4le()
            if not self.len_file_name <= self._io.size() - self._io.pos():
                raise kaitaistruct.ValidationGreaterThanError(self._io.size() - self._io.pos(), self.len_file_name, self._io, u"/types/enumeration_path/seq/2")
            self.file_name = (self._io.read_bytes(self.len_file_name)).decode(u"UTF-8")


        def _fetch_instances(self):
            pass


    @property
    def is_dups_allowed(self):
        if hasattr(self, '_m_is_dups_allowed'):
            return self._m_is_dups_allowed

        self._m_is_dups_allowed = (self.dups_allowed != 0 if self.version >= 5 else False)
        return getattr(self, '_m_is_dups_allowed', None)


